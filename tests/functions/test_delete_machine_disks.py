"""delete_machine: a disk goes down with its machine only when everything says that it is the machine's own (M20)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.machines import at, create, delete, deletion, vms
from support.soap import Soap
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.delete_machine import delete_machine
from vsphere_functions.vsphere import destroy

OURS = "/DC0/vm/demo/machines/worker-1"
VOLUME = "[we ird (1)] vols/data-1.vmdk"
SECOND = "[we ird (1)] vols/data-2.vmdk"
BORN = "vspherefunctions.born"


@pytest.fixture
def soap(vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(vcenter) as client:
        client.make_folder("[we ird (1)] vols")
        yield client


def put_on(soap: Soap, path: str, *, unit: int = 1, mode: str = "persistent", **more: Any) -> None:
    """Make a disk and put it on the machine."""
    soap.create_disk(path)
    machine = soap.find(OURS)
    controller = soap.devices(machine, vim.vm.device.VirtualSCSIController)[0]
    backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode=mode)
    disk = vim.vm.device.VirtualDisk(
        key=-1, controllerKey=controller.key, unitNumber=unit, capacityInKB=0, backing=backing, **more
    )
    change = vim.vm.device.VirtualDeviceSpec(operation="add", device=disk)
    soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))


def take_off(soap: Soap, path: str) -> None:
    """Take a disk off the machine, as somebody else would."""
    machine = soap.find(OURS)
    disk = next(one for one in soap.disks(machine) if one.backing.fileName == path)
    change = vim.vm.device.VirtualDeviceSpec(operation="remove", device=disk)
    soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))


def record(vcenter: SimulatedVCenter, born: str) -> None:
    vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", f"{BORN}={born}")


@pytest.mark.parametrize("known_by", ["key", "uuid"])
def test_m20_a_disk_that_the_birth_record_knows_by_half_outlives_its_machine(
    vcenter: SimulatedVCenter, soap: Soap, known_by: str
) -> None:
    """One put where a born one was has its key; one copied from it, by vCenter, has its uuid."""
    with at(vcenter) as ctx:
        create(ctx)
        put_on(soap, VOLUME)
        own, added = sorted(soap.disks(soap.find(OURS)), key=lambda one: one.backing.fileName == VOLUME)
        half = [added.key, own.backing.uuid] if known_by == "key" else [own.key, added.backing.uuid]
        record(vcenter, json.dumps([[own.key, own.backing.uuid.lower()], half]).lower())
        gone = delete(ctx)
    assert [one.vmdk_path for one in gone.detached_volumes] == [VOLUME]
    assert soap.disk_uuid(VOLUME)


def test_m20_a_first_class_disk_in_the_folder_of_a_machine_without_a_record_outlives_it(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        path = "[we ird (1)] worker-1/pv-1.vmdk"
        put_on(soap, path, vDiskId=vim.vslm.ID(id="pv-1"))
        record(vcenter, "")
        gone = delete(ctx)
    assert [(one.vmdk_path, one.fcd_id) for one in gone.detached_volumes] == [(path, "pv-1")]


def test_m20_a_detach_that_leaves_the_disk_on_destroys_nothing(
    vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reconfigure succeeds all the same."""
    monkeypatch.setattr(destroy, "removals", lambda _disks: [])
    with at(vcenter) as ctx:
        create(ctx)
        put_on(soap, VOLUME)
        failed = error_of(delete, ctx)
    assert failed.code is Code.FAILED_PRECONDITION
    assert f"still attached: {VOLUME}" in failed.message
    assert vcenter.control.calls()["Destroy_Task"] == 0
    assert soap.disk_uuid(VOLUME)


@pytest.mark.parametrize("others", [0, 1], ids=["nothing to take off", "another taken off"])
def test_m20_a_disk_that_only_a_snapshot_still_has_destroys_nothing(
    vcenter: SimulatedVCenter, soap: Soap, others: int
) -> None:
    """Its file would go with the snapshot; an independent disk is in none, and can be taken off."""
    with at(vcenter) as ctx:
        create(ctx)
        put_on(soap, VOLUME)
        vcenter.govc("snapshot.create", "-dc", "DC0", "-vm", OURS, "-m=false", "before")
        take_off(soap, VOLUME)
        for _ in range(others):
            put_on(soap, SECOND, unit=2, mode="independent_persistent")
        failed = error_of(delete, ctx)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "is not the machine's own" in failed.message
    assert vcenter.control.calls()["Destroy_Task"] == 0
    assert OURS in vms(vcenter)
    assert soap.disk_uuid(VOLUME)


def test_m20_what_an_interrupted_delete_took_off_is_told_with_what_the_next_takes_off(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    """Somebody has attached another disk in between, and the state of the first try is lost."""
    with at(vcenter) as ctx:
        create(ctx)
        put_on(soap, VOLUME)
        began = delete_machine(deletion(), ctx)
        while next(began).message != "detached 1 disk":
            pass
        began.close()
        put_on(soap, SECOND)
        gone = delete(ctx)
    assert [one.vmdk_path for one in gone.detached_volumes] == [VOLUME, SECOND]
    assert soap.disk_uuid(VOLUME)
    assert soap.disk_uuid(SECOND)
