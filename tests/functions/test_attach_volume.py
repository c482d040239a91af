"""attach_volume on the simulated vCenter; what is slots' is in tests/vsphere/test_slots.py."""

from collections.abc import Callable, Generator
from typing import Any

import pytest
from pyVmomi import vim

from support import machines
from support.gateway import error_of
from support.machines import OTHERS, end
from support.scene import Scene, strip
from support.volumes import attach, attaching, contents, create, detach, get, store, with_stores
from support.wire import recorded, texts_in, without_config
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step
from vsphere_functions.vsphere import attach as gateway
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.vcenter import VCenter


def test_a_volume_is_attached_and_told(on: Scene) -> None:
    done = attach(on.ctx, on.volume)
    calls = on.vcenter.control.calls()
    assert done.volume == get(on.ctx, on.volume)
    assert done.volume.attached_to == ("worker-1",)
    assert done.provider_id == machines.status(on.ctx).provider_id
    assert on.modes()[on.disk] == "independent_persistent"
    assert calls["ReconfigVM_Task"] == 1
    assert calls["CreateContainerView"] == 1, "one pass over all VMs"


def test_a_volume_goes_to_a_machine_that_is_off(on: Scene) -> None:
    on.soap.wait(on.machine().PowerOffVM_Task())
    attach(on.ctx, on.volume)
    assert on.disk in on.paths()


@pytest.mark.parametrize(
    "name",
    [
        lambda on: {"id": on.volume, "store": "default"},
        lambda on: {"selfLink": on.link},
        lambda on: {"vmdkPath": on.disk},
        lambda on: {"vmdkPath": on.disk.replace("] ", "]")},
    ],
    ids=["id", "selfLink", "vmdkPath", "vmdkPath spelled otherwise"],
)
def test_a_volume_is_named_in_several_ways_and_is_one(
    on: Scene, name: Callable[[Scene], dict[str, str]]
) -> None:
    done = attach(on.ctx, None, **name(on))
    assert done.volume.self_link == on.link
    on.vcenter.control.reset_calls()
    assert attach(on.ctx, on.volume).volume == done.volume
    assert attach(on.ctx, None, **name(on)).volume == done.volume
    assert not on.reconfigured()


def test_a_disk_that_lies_in_no_store_is_attached_by_its_path(on: Scene) -> None:
    path = on.plain_disk()
    done = attach(on.ctx, None, vmdkPath=path)
    assert path in on.paths()
    assert (done.volume.tag, done.volume.self_link) == ("plain", None)
    assert (done.volume.vmdk_path, done.volume.attached_to) == (path, ("worker-1",))
    on.vcenter.control.reset_calls()
    assert attach(on.ctx, None, vmdkPath=path).volume.capacity_kb == 1 << 20
    assert not on.reconfigured()


def test_an_attach_names_no_file_operation(on: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One would make, replace or delete the file: so we look at what we send."""
    sent = recorded(monkeypatch)
    attach(on.ctx, on.volume)
    detach(on.ctx, on.volume)
    changes = [body for body in sent if b"ReconfigVM_Task" in (body or b"")]
    assert [texts_in(body, "operation") for body in changes] == [["add"], ["remove"]]
    assert [texts_in(body, "fileOperation") for body in changes] == [[], []]


def test_what_is_written_to_a_read_only_volume_is_not_kept(on: Scene) -> None:
    attach(on.ctx, on.volume, readOnly=True)
    assert on.modes()[on.disk] == "independent_nonpersistent"
    on.vcenter.control.reset_calls()
    attach(on.ctx, on.volume, readOnly=True)
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "independent_nonpersistent" in failed.message
    assert not on.reconfigured()


def slots(on: Scene) -> list[tuple[int, int]]:
    return [(disk.controllerKey, disk.unitNumber) for disk in on.soap.disks(on.machine())]


def test_v15_twenty_volumes_find_their_slots(on: Scene) -> None:
    volumes = [create(on.ctx, f"{on.volume}-{number}").tag for number in range(20)]
    for name in volumes:
        attach(on.ctx, name)
    taken = slots(on)
    assert len(taken) == len(set(taken)) == 21
    assert all(unit != 7 and 0 <= unit < 16 for _, unit in taken)
    controllers = on.soap.devices(on.machine(), vim.vm.device.VirtualSCSIController)
    assert {key for key, _ in taken} == {one.key for one in controllers}
    assert len({one.busNumber for one in controllers}) == len(controllers) == 2


def fill(on: Scene) -> None:
    """Put a disk into every slot but one of four controllers."""
    machine, kinds = on.machine(), vim.vm.device
    there = {one.busNumber for one in on.soap.devices(machine, kinds.VirtualSCSIController)}
    controllers = [
        kinds.ParaVirtualSCSIController(key=-1 - bus, busNumber=bus, sharedBus="noSharing")
        for bus in set(range(4)) - there
    ]
    adding = [kinds.VirtualDeviceSpec(operation="add", device=one) for one in controllers]
    on.soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=adding)))
    keys = [one.key for one in on.soap.devices(machine, kinds.VirtualSCSIController)]
    free = [(key, unit) for key in keys for unit in range(16) if unit != 7 and (key, unit) not in slots(on)]
    on.soap.make_folder(f"[LocalDS_0] fill-{on.volume}")
    adding = [filler(f"[LocalDS_0] fill-{on.volume}/{at}.vmdk", *slot) for at, slot in enumerate(free[:-1])]
    on.soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=adding)))


def filler(path: str, controller: int, unit: int) -> Any:
    kinds = vim.vm.device
    backing = kinds.VirtualDisk.FlatVer2BackingInfo(
        fileName=path, diskMode="independent_persistent", thinProvisioned=True
    )
    disk = kinds.VirtualDisk(
        key=-unit - 1, controllerKey=controller, unitNumber=unit, capacityInKB=1024, backing=backing
    )
    return kinds.VirtualDeviceSpec(operation="add", fileOperation="create", device=disk)


def test_v15_past_the_limit_nothing_changes(on: Scene) -> None:
    fill(on)
    attach(on.ctx, on.volume)
    assert len(on.paths()) == 60
    create(on.ctx, f"{on.volume}-late")
    on.vcenter.control.reset_calls()
    failed = error_of(attach, on.ctx, f"{on.volume}-late")
    assert failed.code is Code.RESOURCE_EXHAUSTED
    assert not on.reconfigured()
    assert get(on.ctx, f"{on.volume}-late").attached_to == ()


def test_v29_a_second_machine_does_not_get_the_volume(on: Scene, second: str) -> None:
    attach(on.ctx, on.volume)
    on.vcenter.control.reset_calls()
    failed = error_of(attach, on.ctx, on.volume, second)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == ("worker-1",)
    assert "worker-1" in failed.message
    assert failed.provider_id == str(machines.status(on.ctx, second).provider_id)
    assert not on.reconfigured()
    assert get(on.ctx, on.volume).attached_to == ("worker-1",)


def test_v29_a_vm_of_the_same_name_elsewhere_is_another(on: Scene) -> None:
    """Names are unique within a folder only."""
    on.vcenter.govc("folder.create", "/DC0/vm/elsewhere")
    path = machines.foreign(on.vcenter, folder="/DC0/vm/elsewhere")
    on.soap.attach(on.soap.find(path), on.disk)
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == ("worker-1",)
    assert on.disk not in on.paths()


def in_a_template(on: Scene) -> str:
    machine = on.soap.clone(f"golden-{on.volume}")
    on.soap.attach(machine, on.disk)
    machine.MarkAsTemplate()
    return f"golden-{on.volume} (a template)"


def in_a_snapshot(on: Scene) -> str:
    name = f"holder-{on.volume}"
    on.soap.attach(on.soap.clone(name), on.disk)
    on.soap.wait(on.machine(name).CreateSnapshot_Task(name="first", memory=False, quiesce=False))
    strip(on, name)
    return f"{name} (in a snapshot)"


def under_another_path(on: Scene) -> str:
    """The holder knows the disk by its uuid only."""
    machine = on.soap.clone(f"holder-{on.volume}")
    on.soap.move_disk(on.disk, f"{on.folder}/elsewhere.vmdk")
    on.soap.attach(machine, f"{on.folder}/elsewhere.vmdk")
    on.soap.move_disk(f"{on.folder}/elsewhere.vmdk", on.disk)
    return f"holder-{on.volume}"


@pytest.mark.parametrize("hold", [in_a_template, in_a_snapshot, under_another_path])
def test_a_volume_that_anything_holds_is_refused(on: Scene, hold: Callable[[Scene], str]) -> None:
    name = hold(on)
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == (name,)
    assert on.disk not in on.paths()


def test_a_disk_that_another_vm_was_made_with_is_refused(on: Scene, second: str) -> None:
    failed = error_of(attach, on.ctx, None, vmdkPath=on.paths(second)[0])
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == (second,)


def test_a_disk_in_no_store_is_known_by_its_uuid_too(on: Scene) -> None:
    """Nothing is written down about it, so it is asked."""
    path = on.plain_disk()
    elsewhere = path.replace("plain.vmdk", "elsewhere.vmdk")
    on.soap.move_disk(path, elsewhere)
    on.soap.attach(on.soap.clone(f"holder-{on.volume}"), elsewhere)
    on.soap.move_disk(elsewhere, path)
    failed = error_of(attach, on.ctx, None, vmdkPath=path)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == (f"holder-{on.volume}",)


def test_a_disk_that_is_taken_off_at_once_is_not_said_to_be_attached(
    on: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = gateway.read_again

    def late(vcenter: VCenter, machine: Machine) -> Machine:
        strip(on)
        return look(vcenter, machine)

    monkeypatch.setattr(gateway, "read_again", late)
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.ABORTED
    assert on.volume in failed.message


@pytest.mark.parametrize("change", [attach, detach])
def test_the_machines_own_disk_is_left_alone(on: Scene, change: Callable[..., Any]) -> None:
    (path,) = on.paths()
    failed = error_of(change, on.ctx, None, vmdkPath=path)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "born with" in failed.message
    assert on.paths() == [path]


@pytest.mark.parametrize(
    "path",
    [
        "data.vmdk",
        "[LocalDS_0]",
        "[LocalDS_0] kubevols/",
        "[LocalDS_0] kubevols/plain-flat.vmdk",
        "[LocalDS_0] kubevols/plain-000001.vmdk",
        "[LocalDS_0] kubevols/plain.iso",
        "[LocalDS_0] ../x.vmdk",
        "[nowhere] kubevols/plain.vmdk",
        "{folder}/other.vmdk",
        "{folder}/data-1/data-1.vmdk",
    ],
)
def test_a_path_that_is_no_disks_is_refused(on: Scene, path: str) -> None:
    failed = error_of(attach, on.ctx, None, vmdkPath=path.format(folder=on.folder))
    assert failed.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in failed.details] == ["vmdkPath"]
    assert not on.reconfigured()


def test_a_volume_by_another_name_of_its_datastore_is_to_be_named_otherwise(on: Scene) -> None:
    """Its lease would be another one: so the request is refused, with the name that it has to use."""
    made = create(on.ctx, on.volume, store="second")
    url = on.soap.read(on.soap.find("/DC0/datastore/LocalDS_0"), "summary.url")["summary.url"]
    on.vcenter.govc(
        *("datastore.create", "-type", "local", "-name", "alias", "-path", url), "/DC0/host/DC0_H0/DC0_H0"
    )
    failed = error_of(attach, on.ctx, None, vmdkPath=made.vmdk_path.replace("LocalDS_0", "alias"))
    assert failed.code is Code.INVALID_ARGUMENT
    assert f"vsphere-volume://default/second/{on.volume}" in failed.details[0].reason
    assert len(on.paths()) == 1


@pytest.mark.parametrize("kind", ["volume", "path"])
def test_a_disk_with_a_snapshot_is_refused(on: Scene, kind: str) -> None:
    """Whoever runs on the snapshot would see the disk change below it."""
    if kind == "volume":
        on.soap.create_disk(f"{on.folder}/{on.volume}-000001.vmdk")
        failed = error_of(attach, on.ctx, on.volume)
    else:
        path = on.plain_disk()
        on.soap.create_disk(path.replace("plain.vmdk", "plain-000002.vmdk"))
        failed = error_of(attach, on.ctx, None, vmdkPath=path)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "snapshot" in failed.message
    assert len(on.paths()) == 1


def test_what_is_not_there_is_not_found(on: Scene) -> None:
    vague = error_of(attach, on.ctx, "no-such")
    assert vague.code is Code.NOT_FOUND
    assert "second" in vague.message
    for name in (
        {"id": "no-such", "store": "second"},
        {"vmdkPath": "[LocalDS_0] kubevols/plain.vmdk"},
        {"id": on.volume, "machineName": "worker-9"},
    ):
        assert error_of(attach, on.ctx, None, **name).code is Code.NOT_FOUND
    unknown = error_of(attach, on.ctx, on.volume, store="third")
    assert unknown.code is Code.INVALID_ARGUMENT
    assert unknown.details[0].candidates == ("default", "second")


def test_a_volume_that_is_not_whole_is_refused(on: Scene) -> None:
    on.soap.move_file(f"{on.folder}/volume.json", f"{on.folder}/lost.json")
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "without metadata" in failed.message
    assert on.disk not in on.paths()


def option(key: str, value: str) -> Any:
    """A spec that sets one extraConfig key."""
    return vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key=key, value=value)])


@pytest.mark.parametrize(
    ("key", "value"), [("born", ""), ("detached", "[]")], ids=["half built", "being deleted"]
)
def test_a_machine_without_a_birth_record_or_a_future_gets_nothing(on: Scene, key: str, value: str) -> None:
    """Its own disks could not be told from others when it is deleted."""
    name = f"worker-{on.volume}"
    machines.create(on.ctx, name)
    on.soap.wait(on.machine(name).ReconfigVM_Task(option(f"vspherefunctions.{key}", value)))
    failed = error_of(attach, on.ctx, on.volume, name)
    assert failed.code is Code.FAILED_PRECONDITION
    assert {"born": "half built", "detached": "being deleted"}[key] in failed.message
    assert len(on.paths(name)) == 1


def test_a_machine_of_another_owner_gets_nothing(on: Scene) -> None:
    tags, known = {"tags": OTHERS}, str(machines.status(on.ctx).provider_id)
    assert error_of(attach, on.ctx, on.volume, providerSpec=tags).code is Code.NOT_FOUND
    failed = error_of(attach, on.ctx, on.volume, providerSpec=tags, providerID=known)
    assert failed.code is Code.FAILED_PRECONDITION
    assert on.disk not in on.paths()


def test_a_vm_out_of_reach_may_hold_it(on: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is only being made holds no disk that was there before."""
    name, where = f"holder-{on.volume}", {"store": "second"}
    create(on.ctx, on.volume, **where)
    machine = on.soap.clone(name)
    without_config(monkeypatch, name)
    attach(on.ctx, on.volume, **where)
    detach(on.ctx, on.volume, **where)
    on.soap.wait(machine.ReconfigVM_Task(option("SET.runtime.connectionState", "inaccessible")))
    failed = error_of(attach, on.ctx, on.volume, **where)
    assert failed.code is Code.UNAVAILABLE
    assert name in failed.message
    assert len(on.paths()) == 1


def test_v10_a_datastore_of_the_same_name_in_another_datacenter_is_another(on: Scene) -> None:
    with with_stores(on.vcenter, store("far", "[LocalDS_0] vols", datacenter="DC1")) as ctx:
        create(ctx, on.volume, store="far")
        failed = error_of(attach, ctx, on.volume, store="far")
        assert failed.code is Code.INVALID_ARGUMENT
        assert "where the machine is" in failed.details[0].reason
        path = get(ctx, on.volume, store="far").vmdk_path
        assert error_of(attach, ctx, None, vmdkPath=path).code is Code.NOT_FOUND


def test_an_attach_that_was_cut_short_is_joined(on: Scene) -> None:
    on.vcenter.control.delay(ReconfigVm=500)
    begun = attaching(on.ctx, on.volume)
    state = next(begun).state
    begun.close()
    on.vcenter.control.delay(ReconfigVm=0)
    on.vcenter.control.reset_calls()
    assert attach(on.ctx, on.volume, lastKnownState=state).volume.attached_to == ("worker-1",)
    assert not on.reconfigured()


def test_a_volume_that_moved_along_with_its_machine_is_still_its_own(on: Scene) -> None:
    """Storage migration takes the disk along."""
    moved = f"[LocalDS_0] moved-{on.volume}/disk.vmdk"
    on.soap.make_folder(moved.rpartition("/")[0])
    on.soap.move_disk(on.disk, moved)
    on.soap.attach(on.machine(), moved)
    on.vcenter.control.reset_calls()
    assert attach(on.ctx, on.volume).volume.moved_to == moved
    assert not on.reconfigured()
    detach(on.ctx, on.volume)
    assert moved not in on.paths()
    assert on.soap.disk_uuid(moved)
    assert contents(on.ctx)[on.volume] == ["volume.json"]


def canceled(steps: Generator[Step, None, Any]) -> None:
    """Say at its present step that it is to stop, and let it come to its end."""
    steps.throw(CallError(Code.CANCELED, "stop"))
    end(steps)


def test_a_canceled_attach_is_over_before_anybody_hears_of_it(on: Scene, second: str) -> None:
    """Else the volume would be given to another machine while vCenter still attaches it here."""
    on.vcenter.control.delay(ReconfigVm=1500)
    begun = attaching(on.ctx, on.volume)
    next(begun)
    assert error_of(canceled, begun).code is Code.CANCELED
    on.vcenter.control.delay(ReconfigVm=0)
    assert error_of(attach, on.ctx, on.volume, second).code is Code.FAILED_PRECONDITION
    assert get(on.ctx, on.volume).attached_to == ("worker-1",)
