"""detach_volume on the simulated vCenter."""

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.scene import Scene, strip
from support.volumes import attach, contents, destroy, detach, detaching, files_of, found_store, get
from vsphere_events.code import Code
from vsphere_functions.vsphere import attach as gateway
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.vcenter import VCenter


@pytest.fixture
def on(on: Scene) -> Scene:
    """With the volume attached."""
    attach(on.ctx, on.volume)
    on.vcenter.control.reset_calls()
    return on


def test_a_volume_is_detached_and_its_bytes_stay(on: Scene) -> None:
    extent = found_store(on.ctx).folder / on.volume / f"{on.volume}-flat.vmdk"
    files_of(on.ctx).write(extent, b"written by the guest")
    done = detach(on.ctx, on.volume)
    assert done.volume == get(on.ctx, on.volume)
    assert done.volume.attached_to == ()
    assert on.disk not in on.paths()
    assert on.soap.disk_uuid(on.disk)
    assert files_of(on.ctx).read(extent) == b"written by the guest"


def test_v17_what_is_not_attached_is_detached_already(on: Scene) -> None:
    strip(on)
    on.vcenter.control.reset_calls()
    assert detach(on.ctx, on.volume).volume.attached_to == ()
    assert not on.reconfigured()
    attach(on.ctx, on.volume)
    assert get(on.ctx, on.volume).attached_to == ("worker-1",)


def test_a_disk_that_lies_in_no_store_is_detached_by_its_path(on: Scene) -> None:
    path = on.plain_disk()
    attach(on.ctx, None, vmdkPath=path)
    done = detach(on.ctx, None, vmdkPath=path)
    assert (done.volume.vmdk_path, done.volume.attached_to) == (path, ())
    assert on.paths()[1:] == [on.disk]
    assert detach(on.ctx, None, vmdkPath=path).volume.attached_to == ()
    assert on.soap.disk_uuid(path)


def test_a_disk_that_is_locked_elsewhere_is_not_opened_for_a_detach(on: Scene, second: str) -> None:
    """A host that runs on it may let nobody else open it."""
    path = on.plain_disk()
    attach(on.ctx, None, second, vmdkPath=path)
    on.vcenter.control.add_fault("QueryVirtualDiskUuid", "FileLocked", count=1)
    assert detach(on.ctx, None, vmdkPath=path).volume.attached_to == (second,)
    assert detach(on.ctx, on.volume).volume.attached_to == ()
    on.vcenter.control.clear_faults()
    detach(on.ctx, None, second, vmdkPath=path)


def test_a_volume_of_another_machine_stays_there(on: Scene, second: str) -> None:
    assert detach(on.ctx, on.volume, second).volume.attached_to == ("worker-1",)
    assert on.disk in on.paths()


def test_a_detached_volume_goes_to_the_next_machine_and_can_be_destroyed(on: Scene, second: str) -> None:
    detach(on.ctx, on.volume)
    assert attach(on.ctx, on.volume, second).volume.attached_to == (second,)
    detach(on.ctx, on.volume, second)
    destroy(on.ctx, on.volume)
    assert on.volume not in contents(on.ctx)


def test_what_is_not_there_is_not_found(on: Scene) -> None:
    for name in (
        {"id": "no-such"},
        {"vmdkPath": "[LocalDS_0] kubevols/plain.vmdk"},
        {"id": on.volume, "machineName": "worker-9"},
    ):
        assert error_of(detach, on.ctx, None, **name).code is Code.NOT_FOUND


def test_a_volume_without_metadata_is_known_by_its_place(on: Scene) -> None:
    on.soap.move_file(f"{on.folder}/volume.json", f"{on.folder}/lost.json")
    assert detach(on.ctx, on.volume).volume.state == "degraded"
    assert on.disk not in on.paths()


def test_a_detach_that_was_cut_short_is_joined(on: Scene) -> None:
    on.vcenter.control.delay(ReconfigVm=500)
    begun = detaching(on.ctx, on.volume)
    state = next(begun).state
    begun.close()
    on.vcenter.control.delay(ReconfigVm=0)
    on.vcenter.control.reset_calls()
    assert detach(on.ctx, on.volume, lastKnownState=state).volume.attached_to == ()
    assert not on.reconfigured()


def test_a_disk_that_comes_back_at_once_is_not_said_to_be_detached(
    on: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = gateway.read_again

    def late(vcenter: VCenter, machine: Machine) -> Machine:
        on.soap.attach(on.machine(), on.disk)
        return look(vcenter, machine)

    monkeypatch.setattr(gateway, "read_again", late)
    failed = error_of(detach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "still on" in failed.message


def test_a_disk_that_a_snapshot_holds_is_not_taken_off(on: Scene) -> None:
    """A real vCenter refuses it; the simulator would not. An independent disk is in no snapshot."""
    machine = on.machine()
    on.soap.wait(machine.CreateSnapshot_Task(name="first", memory=False, quiesce=False))
    detach(on.ctx, on.volume)
    attach(on.ctx, on.volume)
    disk = on.soap.disks(machine)[-1]
    disk.backing.diskMode = "persistent"
    edit = vim.vm.device.VirtualDeviceSpec(operation="edit", device=disk)
    on.soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[edit])))
    on.vcenter.control.reset_calls()
    failed = error_of(detach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "snapshot" in failed.message
    assert not on.reconfigured()
