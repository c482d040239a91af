"""create_machine with volumes, from the look before the clone to the delete that leaves them."""

import gzip
import json
from base64 import b64decode
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim

from support import machines
from support.gateway import error_of
from support.machines import creation, extra, vms
from support.scene import FOLDER, Scene, strip
from support.volumes import attach, create, detach, files_of, found_store, get, store, with_stores
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import InitializeMachineRequest
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.machine.delete_machine import delete_machine
from vsphere_functions.machine.initialize_machine import initialize_machine
from vsphere_functions.steps import Step

_NUMBERS = count(1)


@pytest.fixture
def name() -> str:
    """A machine that is not there yet."""
    return f"made-{next(_NUMBERS)}"


def made(on: Scene, name: str, *volumes: dict[str, Any], **spec: Any) -> Any:
    """Create a machine with volumes, the test's own when none is named."""
    return machines.create(on.ctx, name, volumes=volumes or [{"id": on.volume}], **spec)


def begun(on: Scene, name: str, until: str, *volumes: dict[str, Any], **spec: Any) -> None:
    """Create a machine until a step has said this, and die there."""
    steps = create_machine(creation(name, volumes=volumes or [{"id": on.volume}], **spec), on.ctx)
    while until not in next(steps).message:
        pass
    steps.close()


def told(on: Scene, name: str) -> str:
    """What the guest is told of its volumes."""
    return gzip.decompress(b64decode(extra(on.vcenter, f"{FOLDER}/{name}")["guestinfo.vendordata"])).decode()


def uuid_of(on: Scene, path: str) -> str:
    return "".join(digit for digit in on.soap.disk_uuid(path) if digit.isalnum()).lower()


def test_volumes_are_attached_before_the_machine_first_runs(on: Scene, name: str) -> None:
    other, plain = create(on.ctx, f"{on.volume}-b", store="second"), on.plain_disk()
    volumes = (
        {"id": on.volume, "mountPath": "/data"},
        {"selfLink": other.self_link, "mountPath": "/logs", "readOnly": True},
        {"vmdkPath": plain},
    )
    taken: list[Step] = []
    made(on, name, *volumes, taken=taken)
    phases = list(dict.fromkeys(step.phase for step in taken))
    assert phases.index("record_birth") < phases.index("attach") < phases.index("power_on")
    modes = on.modes(name)
    assert modes[on.disk] == modes[plain] == "independent_persistent"
    assert modes[other.vmdk_path] == "independent_nonpersistent"
    for path in (on.disk, other.vmdk_path):
        assert f"wwn-0x{uuid_of(on, path)}" in told(on, name)
    assert get(on.ctx, on.volume).attached_to == (name,)


def test_a_second_create_adopts_what_is_attached(on: Scene, name: str) -> None:
    first = made(on, name)
    on.vcenter.control.reset_calls()
    assert made(on, name).provider_id == first.provider_id
    assert not on.reconfigured()


def test_a_machine_in_service_keeps_what_it_has(on: Scene, name: str) -> None:
    """A late delivery does not attach again what was detached since."""
    made(on, name)
    detach(on.ctx, on.volume, name)
    made(on, name)
    assert get(on.ctx, on.volume).attached_to == ()


@pytest.mark.parametrize(
    ("until", "function"),
    [
        ("recording", "create"),
        ("recorded", "initialize"),
        ("attaching", "create"),
        ("attached", "initialize"),
        ("being poweredOn", "create"),
    ],
)
def test_a_create_that_was_killed_is_finished_with_its_volumes(
    on: Scene, name: str, until: str, function: str
) -> None:
    begun(on, name, until, {"id": on.volume, "mountPath": "/data"})
    asked = creation(name, volumes=[{"id": on.volume, "mountPath": "/data"}])
    if function == "create":
        machines.end(create_machine(asked, on.ctx))
    else:
        machines.end(initialize_machine(InitializeMachineRequest.parse(asked.wire()), on.ctx))
    assert on.paths(name).count(on.disk) == 1
    assert len(on.paths(name)) == 2
    assert uuid_of(on, on.disk) in told(on, name)
    assert machines.status(on.ctx, name).power_state == "poweredOn"


def test_everything_wrong_with_volumes_is_said_before_anything_is_cloned(on: Scene, name: str) -> None:
    volumes = [
        {"id": "no-such"},
        {"id": "no-such", "store": "third"},
        {"vmdkPath": "[LocalDS_0] kubevols/none.vmdk"},
        {"vmdkPath": "[nowhere] kubevols/none.vmdk"},
        {"selfLink": "vsphere-volume://other/default/data"},
        {"id": on.volume},
        {"vmdkPath": on.disk},
    ]
    failed = error_of(made, on, name, *volumes, templateVM="no-such-template")
    assert failed.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in failed.details] == [
        "providerSpec.templateVM",
        "providerSpec.volumes.0.id",
        "providerSpec.volumes.1.store",
        "providerSpec.volumes.2.vmdkPath",
        "providerSpec.volumes.3.vmdkPath",
        "providerSpec.volumes.4.selfLink",
        "providerSpec.volumes.6.vmdkPath",
    ]
    seen = machines.validate(on.ctx, name, volumes=volumes, templateVM="no-such-template")
    assert [one.field for one in seen.violations] == [detail.field for detail in failed.details]
    assert f"{FOLDER}/{name}" not in vms(on.vcenter)


def test_v29_a_volume_in_use_is_refused_before_anything_is_cloned(on: Scene, name: str) -> None:
    attach(on.ctx, on.volume)
    on.vcenter.control.reset_calls()
    failed = error_of(made, on, name)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == ("worker-1",)
    assert on.vcenter.control.calls()["CloneVM_Task"] == 0
    (violation,) = machines.validate(on.ctx, name, volumes=[{"id": on.volume}]).violations
    assert violation.field == "providerSpec.volumes"
    assert "worker-1" in violation.reason


def test_a_volume_that_is_grabbed_while_the_machine_is_made_stays_where_it_is(on: Scene, name: str) -> None:
    begun(on, name, "recorded")
    holder = on.soap.clone(f"holder-{on.volume}")
    on.soap.attach(holder, on.disk)
    failed = error_of(made, on, name)
    assert failed.code is Code.FAILED_PRECONDITION
    assert f"holder-{on.volume}" in failed.message
    assert on.disk not in on.paths(name)
    strip(on, f"holder-{on.volume}")
    made(on, name)
    assert get(on.ctx, on.volume).attached_to == (name,)


def test_a_volume_that_is_grabbed_just_before_it_is_attached_fails_the_create(on: Scene, name: str) -> None:
    steps = create_machine(creation(name, volumes=[{"id": on.volume}]), on.ctx)
    while "recorded" not in next(steps).message:
        pass
    on.soap.attach(on.soap.clone(f"holder-{on.volume}"), on.disk)
    with pytest.raises(CallError) as failed:
        machines.end(steps)
    assert failed.value.code is Code.FAILED_PRECONDITION
    assert failed.value.provider_id == str(error_of(machines.status, on.ctx, name).provider_id)
    assert on.disk not in on.paths(name)
    machines.delete(on.ctx, name)
    assert get(on.ctx, on.volume).attached_to == (f"holder-{on.volume}",)


def test_a_volume_that_the_machines_hosts_do_not_see_is_refused(on: Scene, name: str, tmp_path: Path) -> None:
    on.vcenter.govc(
        *("datastore.create", "-type", "local", "-name", "alone", "-path", str(tmp_path)),
        "/DC0/host/DC0_H0/DC0_H0",
    )
    with with_stores(on.vcenter, store("alone", "[alone] vols")) as ctx:
        create(ctx, on.volume, store="alone")
        failed = error_of(machines.create, ctx, name, volumes=[{"id": on.volume, "store": "alone"}])
    assert failed.code is Code.INVALID_ARGUMENT
    assert failed.details[0].field == "providerSpec.volumes.0.id"
    assert "not attached to DC0_C0" in failed.details[0].reason


def test_a_locked_disk_that_no_vm_here_has_is_told_as_held(on: Scene) -> None:
    """Another vCenter can have the datastore, too."""
    on.vcenter.control.add_fault("ReconfigVM_Task", "FileLocked", scope="task", count=1)
    assert error_of(attach, on.ctx, on.volume).code is Code.FAILED_PRECONDITION
    attach(on.ctx, on.volume)


def test_more_volumes_than_there_is_room_for_are_refused(on: Scene, name: str) -> None:
    disks = [{"size": 1}] * 2
    failed = error_of(made, on, name, *({"id": f"no-such-{at}"} for at in range(58)), disks=disks)
    assert "room for 57 of the 58 volumes" in failed.details[0].reason
    assert failed.details[0].field == "providerSpec.volumes"


def test_a_volume_is_never_taken_for_the_system_disk(on: Scene, name: str) -> None:
    """It would be grown to the size that the spec wants of that one."""
    begun(on, name, "attached", systemDisk={"size": 20})
    machine = on.machine(name)
    strip(on, name)
    (system,) = on.soap.disks(machine)
    system.unitNumber = 5
    edit = vim.vm.device.VirtualDeviceSpec(operation="edit", device=system)
    on.soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[edit])))
    on.soap.attach(machine, on.disk, unit=0)
    made(on, name, systemDisk={"size": 20})
    sizes = {disk.backing.fileName: disk.capacityInKB for disk in on.soap.disks(machine)}
    assert sizes[on.disk] == 1 << 20


def test_v01_a_deleted_machine_leaves_its_volumes_and_says_so(on: Scene, name: str) -> None:
    plain = on.plain_disk()
    made(on, name, {"id": on.volume}, {"vmdkPath": plain})
    extent = found_store(on.ctx).folder / on.volume / f"{on.volume}-flat.vmdk"
    files_of(on.ctx).write(extent, b"written by the guest")
    gone = machines.delete(on.ctx, name)
    assert {one.vmdk_path: one.self_link for one in gone.detached_volumes} == {on.disk: on.link, plain: None}
    assert uuid_of(on, on.disk)
    assert files_of(on.ctx).read(extent) == b"written by the guest"
    assert get(on.ctx, on.volume).state == "ready"
    attach(on.ctx, on.volume)


def test_v01_an_interrupted_delete_still_tells_whose_disk_it_took_off(on: Scene, name: str) -> None:
    made(on, name)
    steps = delete_machine(machines.deletion(name), on.ctx)
    while next(steps).message != "detached 1 disk":
        pass
    steps.close()
    failed = error_of(made, on, name)  # it would come up without its volume
    assert failed.code is Code.FAILED_PRECONDITION
    assert "delete" in failed.message
    (gone,) = machines.delete(on.ctx, name).detached_volumes
    assert (gone.vmdk_path, gone.self_link, gone.uuid is not None) == (on.disk, on.link, True)
    assert uuid_of(on, on.disk)


def test_v01_a_disk_in_a_store_is_no_machines_own_whatever_its_record_says(on: Scene, name: str) -> None:
    made(on, name)
    disks = on.soap.disks(on.machine(name))
    born = json.dumps([[disk.key, disk.backing.uuid.lower()] for disk in disks])
    option = vim.option.OptionValue(key="vspherefunctions.born", value=born)
    on.soap.wait(on.machine(name).ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[option])))
    (gone,) = machines.delete(on.ctx, name).detached_volumes
    assert gone.self_link == on.link
    assert uuid_of(on, on.disk)
