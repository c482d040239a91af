"""delete_machine on the simulated vCenter."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vim

from support.gateway import end_other_sessions, error_of, machine, opened
from support.machines import (
    OTHERS,
    at,
    create,
    creation,
    delete,
    deletion,
    end,
    extra,
    foreign,
    info,
    listing,
    shut_down,
    status,
    vms,
)
from support.proxy import Proxy
from support.soap import Soap
from support.wire import besides_waiting, recorded, texts_in, without_config
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.machine.delete_machine import delete_machine
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere import destroy
from vsphere_functions.vsphere.follow import change_as_seen

OURS = "/DC0/vm/demo/machines/worker-1"
VOLUME = "[we ird (1)] vols/data-1.vmdk"


@pytest.fixture
def soap(vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(vcenter) as client:
        yield client


def with_volume(soap: Soap, machine: str = OURS, path: str = VOLUME) -> None:
    """Attach a disk that the machine was not born with."""
    soap.make_folder(path.rpartition("/")[0])
    soap.create_disk(path)
    soap.attach(soap.find(machine), path)


@pytest.mark.parametrize("power", ["on", "off", "suspend"])
def test_m21_a_machine_is_deleted_whatever_its_power(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch, power: str
) -> None:
    """Also in few calls, besides waiting."""
    before = vms(vcenter)
    with at(vcenter) as ctx:
        made = create(ctx)
        if power != "on":
            vcenter.govc("vm.power", f"-{power}", "-force" if power == "off" else "-wait=true", OURS)
        vcenter.control.reset_calls()
        sent = recorded(monkeypatch)
        gone = delete(ctx)
        assert besides_waiting(sent) == (4 if power == "off" else 5)
    assert vcenter.control.calls()["PowerOffVM_Task"] == (power != "off")
    assert gone.provider_id == made.provider_id
    assert gone.detached_volumes == ()
    assert vms(vcenter) == before


def test_m22_deleting_twice_or_what_never_was_is_ok(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        delete(ctx)
        again = delete(ctx, providerID=str(made.provider_id))
        assert (again.provider_id, again.detached_volumes) == (made.provider_id, ())
        never = delete(ctx, "worker-7")
    assert (never.provider_id, never.detached_volumes) == (None, ())


def test_m22_a_machine_that_another_destroys_meanwhile_is_gone(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*arguments: Any) -> Steps[Any]:
        vcenter.govc("vm.destroy", OURS)
        return (yield from change_as_seen(*arguments))

    monkeypatch.setattr(destroy, "change_as_seen", late)
    with at(vcenter) as ctx:
        made = create(ctx)
        assert delete(ctx).provider_id == made.provider_id
    assert OURS not in vms(vcenter)


def test_m25_a_late_delete_does_not_hit_the_next_machine_of_the_name(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        first = create(ctx)
        delete(ctx)
        second = create(ctx)
        assert first.provider_id != second.provider_id
        delete(ctx, providerID=str(first.provider_id))
        assert status(ctx).provider_id == second.provider_id


@pytest.mark.parametrize(
    "text", ["vsphere://", "vsphere:///x", "aws:///eu/i-1", "422e4956", "vsphere://eu-1/no"]
)
def test_m30_a_malformed_provider_id_is_refused_and_nothing_looked_up(text: str) -> None:
    refused = error_of(deletion, providerID=text)
    assert refused.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in refused.details] == ["providerID"]


def test_a_provider_id_is_taken_in_any_case(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        gone = delete(ctx, providerID=f"VSPHERE://eu-1/{made.provider_id.uuid.upper()}")
    assert gone.provider_id == made.provider_id


def test_m20_a_volume_outlives_its_machine(
    vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        uuid = [disk.backing.uuid for disk in soap.disks(soap.find(OURS)) if disk.backing.fileName == VOLUME]
        sent = recorded(monkeypatch)
        gone = delete(ctx)
        assert besides_waiting(sent) == 7
    assert [(one.vmdk_path, one.uuid) for one in gone.detached_volumes] == [(VOLUME, uuid[0].lower())]
    assert soap.disk_uuid(VOLUME)
    soap.wait(soap.content.virtualDiskManager.DeleteVirtualDisk_Task(VOLUME, soap.find("/DC0")))


@pytest.mark.parametrize("recorded", [False, True], ids=["attached later", "in the birth record"])
def test_m20_a_first_class_disk_outlives_its_machine(
    vcenter: SimulatedVCenter, soap: Soap, *, recorded: bool
) -> None:
    fcd = vcenter.govc("disk.create", "-dc", "DC0", "-ds", "LocalDS_0", "-size", "1G", "pv-1").strip()
    listed = vcenter.govc("disk.ls", "-dc", "DC0", "-ds", "LocalDS_0", "-json", fcd)["objects"][0]
    path = listed["config"]["backing"]["filePath"]
    with at(vcenter) as ctx:
        create(ctx)
        machine = soap.find(OURS)
        controller = soap.devices(machine, vim.vm.device.VirtualSCSIController)[0]
        disk = vim.vm.device.VirtualDisk(
            key=-1,
            controllerKey=controller.key,
            unitNumber=2,
            capacityInKB=0,
            vDiskId=vim.vslm.ID(id=fcd),
            backing=vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode="persistent"),
        )
        change = vim.vm.device.VirtualDeviceSpec(operation="add", device=disk)
        soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
        if recorded:
            born = json.dumps([[disk.key, disk.backing.uuid.lower()] for disk in soap.disks(machine)])
            vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", f"vspherefunctions.born={born}")
        gone = delete(ctx)
    assert [(one.vmdk_path, one.fcd_id) for one in gone.detached_volumes] == [(path, fcd)]
    assert fcd in vcenter.govc("disk.ls", "-dc", "DC0", "-ds", "LocalDS_0")
    vcenter.govc("disk.rm", "-dc", "DC0", "-ds", "LocalDS_0", fcd)


def test_a_detach_names_no_file_operation(
    vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fileOperation would delete the volume's files: so we look at what we send."""
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        sent = recorded(monkeypatch)
        delete(ctx)
    detach = next(body for body in sent if b"ReconfigVM_Task" in body)
    assert texts_in(detach, "operation") == ["remove"]
    assert texts_in(detach, "fileOperation") == []


def test_what_an_interrupted_delete_detached_is_still_reported(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        began = delete_machine(deletion(), ctx)
        while next(began).message != "detached 1 disk":
            pass
        began.close()
        assert status(ctx).phase == "Deleting"
        gone = delete(ctx)
    assert [one.vmdk_path for one in gone.detached_volumes] == [VOLUME]


def test_what_was_detached_is_reported_even_when_the_machine_is_gone(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        taken: list[Step] = []
        first = delete(ctx, taken=taken)
        again = delete(ctx, lastKnownState=taken[-1].state)
        later = delete(ctx, lastKnownState=first.last_known_state)
        anew = create(ctx, state=first.last_known_state)
        assert delete(ctx, lastKnownState=anew.last_known_state).detached_volumes == ()
    assert later.detached_volumes == again.detached_volumes == first.detached_volumes != ()


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_delete_that_ends_after_any_step_is_finished_by_the_next(
    vcenter: SimulatedVCenter, soap: Soap, steps: int
) -> None:
    before = vms(vcenter)
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        began, last = delete_machine(deletion(), ctx), None
        for _ in range(steps):
            last = next(began).state
        began.close()
        gone = delete(ctx, lastKnownState=last)
    assert [one.vmdk_path for one in gone.detached_volumes] == [VOLUME]
    assert soap.disk_uuid(VOLUME)
    assert vms(vcenter) == before


def test_nothing_is_destroyed_when_a_detach_fails(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        with_volume(soap)
        vcenter.control.add_fault("ReconfigVM_Task", "InvalidDeviceSpec", scope="task")
        failed = error_of(delete, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
    assert vcenter.control.calls()["Destroy_Task"] == 0
    assert soap.disk_uuid(VOLUME)


def test_a_disk_in_a_snapshot_is_not_detached(vcenter: SimulatedVCenter, soap: Soap) -> None:
    """The simulator lets go of it, a real vCenter does not: what is asserted is our refusal."""
    with at(vcenter) as ctx:
        create(ctx)
        soap.make_folder("[we ird (1)] vols")
        soap.create_disk(VOLUME)
        machine = soap.find(OURS)
        controller = soap.devices(machine, vim.vm.device.VirtualSCSIController)[0]
        backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(fileName=VOLUME, diskMode="persistent")
        disk = vim.vm.device.VirtualDisk(
            key=-1, controllerKey=controller.key, unitNumber=2, capacityInKB=0, backing=backing
        )
        change = vim.vm.device.VirtualDeviceSpec(operation="add", device=disk)
        soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
        vcenter.govc("snapshot.create", "-dc", "DC0", "-vm", OURS, "-m=false", "before")
        failed = error_of(delete, ctx)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "snapshot" in failed.message
    assert OURS in vms(vcenter)


def test_a_foreign_vm_is_never_deleted(vcenter: SimulatedVCenter) -> None:
    path = foreign(vcenter)
    uuid = info(vcenter, path)["config"]["uuid"]
    with at(vcenter) as ctx:
        assert delete(ctx).provider_id is None
        failed = error_of(delete, ctx, providerID=f"vsphere://{uuid}")
    assert failed.code is Code.FAILED_PRECONDITION
    assert path in vms(vcenter)


def test_another_owners_machine_is_never_deleted(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        assert delete(ctx, tags=OTHERS).provider_id is None
        failed = error_of(delete, ctx, tags=OTHERS, providerID=str(made.provider_id))
        assert failed.code is Code.FAILED_PRECONDITION
        assert status(ctx).phase == "Running"


def test_a_provider_id_of_another_of_our_machines_is_refused(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        create(ctx, "worker-2")
        failed = error_of(delete, ctx, "worker-2", providerID=str(made.provider_id))
        assert failed.code is Code.FAILED_PRECONDITION
        assert status(ctx).phase == status(ctx, "worker-2").phase == "Running"


@pytest.mark.parametrize("state", ["inaccessible", "disconnected", "orphaned"])
def test_m24_a_machine_out_of_reach_is_neither_deleted_nor_absent(
    vcenter: SimulatedVCenter, state: str
) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", f"SET.runtime.connectionState={state}")
        for asked in (create, delete, status, shut_down):
            failed = error_of(asked, ctx)
            assert (failed.code, failed.provider_id) == (Code.UNAVAILABLE, str(made.provider_id))
            assert state in failed.message
        assert listing(ctx).machine_list == {str(made.provider_id): "worker-1"}
    assert OURS in vms(vcenter)


def test_m27_a_destroy_that_fails_says_so(vcenter: SimulatedVCenter) -> None:
    vcenter.control.add_fault("Destroy_Task", "HostNotConnected", scope="task", count=1)
    with at(vcenter) as ctx:
        create(ctx)
        failed = error_of(delete, ctx)
        assert failed.code is Code.UNAVAILABLE
        assert json.loads(failed.last_known_state or "{}") == {}  # drive adds the last step's
        assert OURS in vms(vcenter)
        delete(ctx)
    assert OURS not in vms(vcenter)


def test_m27_a_machine_that_is_still_there_after_its_destroy_is_no_success(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def idle(*_arguments: object) -> Steps[None]:
        yield Step("destroy", "", "nothing is done")

    monkeypatch.setattr(destroy, "change_as_seen", idle)
    with at(vcenter) as ctx:
        create(ctx)
        assert error_of(delete, ctx).code is Code.ABORTED
    assert OURS in vms(vcenter)


def test_m28_the_task_that_holds_a_machine_is_waited_for(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, opened(vcenter) as admin:
        create(ctx)
        create(ctx, "worker-2")
        vcenter.control.delay(Suspend=1500)
        held = admin.call(machine(admin, "worker-2"), "SuspendVM_Task")
        fields = {"task": {"type": "Task", "value": held.id}}
        vcenter.control.add_fault("PowerOffVM_Task", "TaskInProgress", scope="task", fields=fields, count=1)
        taken: list[Step] = []
        delete(ctx, taken=taken)
        waited = [step for step in taken if step.message == "waiting for the task of an earlier call"]
        assert json.loads(waited[0].state)["task"] == held.id
    assert OURS not in vms(vcenter)


def test_m28_a_machine_that_stays_busy_is_aborted(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.control.add_fault("PowerOffVM_Task", "TaskInProgress", scope="task", count=3)
        assert error_of(delete, ctx).code is Code.ABORTED
        delete(ctx)
    assert OURS not in vms(vcenter)


def test_m29_a_machine_that_waits_for_an_answer_is_left_alone(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc(
            "vm.change", "-dc", "DC0", "-vm", OURS, "-e", "SET.runtime.question.text=moved or copied?"
        )
        for asked in (delete, shut_down):
            failed = error_of(asked, ctx)
            assert failed.code is Code.FAILED_PRECONDITION
            assert "moved or copied?" in failed.message
    assert info(vcenter)["runtime"]["powerState"] == "poweredOn"


def test_m05_a_machine_that_is_off_already_is_no_failure(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.control.add_fault(
            "PowerOffVM_Task",
            "InvalidPowerState",
            scope="task",
            fields={"requestedState": "poweredOff", "existingState": "poweredOff"},
            count=1,
        )
        taken: list[Step] = []
        outcome = error_of(delete, ctx, taken=taken)
    # The simulator did not power it off: the destroy that follows is what fails, not the power off.
    assert "power_off" in {step.phase for step in taken}
    assert (outcome.code, "destroy" in {step.phase for step in taken}) == (Code.FAILED_PRECONDITION, True)


def test_m23_a_delete_waits_for_the_clone_that_its_state_records(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    vcenter.control.delay(CloneVm=1000)
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        state = next(began).state
        taken: list[Step] = []
        gone = delete(ctx, taken=taken, lastKnownState=state)
        assert gone.provider_id is not None
        assert error_of(end, began).code in {Code.ABORTED, Code.UNKNOWN}
    assert vms(vcenter) == before


class Records:
    """Operation records in which a create of worker-1 has begun."""

    def creating(self, owner: str) -> frozenset[str]:
        return frozenset({"worker-1"} if owner == "shoot--demo--a/node" else ())


def test_m23_a_machine_in_creation_is_not_called_absent(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, unfinished=Records()) as ctx:
        for asked in (delete, status, shut_down):
            assert error_of(asked, ctx).code is Code.ABORTED
        delete(ctx, "worker-2")


def test_m60_a_session_that_ends_in_the_middle_is_made_anew(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, opened(vcenter) as admin:
        create(ctx)
        vcenter.control.delay(PowerOff=300, Destroy=300)
        began = delete_machine(deletion(), ctx)
        ended = [end_other_sessions(admin) for step in began if step.phase in {"power_off", "destroy"}]
    assert ended.count(1) == len(ended) > 2
    assert OURS not in vms(vcenter)


def test_a_lost_session_is_never_taken_for_absence(vcenter: SimulatedVCenter) -> None:
    """Property reads on a lost session answer without an exception, with nothing in them."""
    with at(vcenter) as ctx, opened(vcenter) as admin:
        made = create(ctx)
        for _ in range(3):
            end_other_sessions(admin)
            assert status(ctx, providerID=str(made.provider_id)).provider_id == made.provider_id


def test_absence_is_unproven_while_a_vm_that_may_be_it_cannot_be_read(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        create(ctx, "worker-2")
        without_config(monkeypatch, "worker-1")
        for asked in (delete, status):
            failed = error_of(asked, ctx)
            assert failed.code is Code.UNAVAILABLE
            assert "worker-1" in failed.message
        assert delete(ctx, "worker-3").provider_id is None
    assert OURS in vms(vcenter)


def test_a_name_alone_finds_a_machine_whose_uuids_were_reassigned_by_its_mark(
    vcenter: SimulatedVCenter,
) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-uuid", "422e4956-ad22-1139-6d72-59cc8f26bc90")
        gone = delete(ctx, providerID=str(made.provider_id))
        assert gone.provider_id is not None
    assert OURS not in vms(vcenter)


def test_an_unreachable_vcenter_is_unavailable(vcenter: SimulatedVCenter) -> None:
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        at(vcenter, proxy.port) as ctx,
    ):
        create(ctx)
        proxy.refuse()
        for asked in (delete, status):
            assert error_of(asked, ctx).code is Code.UNAVAILABLE
        proxy.resume()
        assert status(ctx).phase == "Running"


def test_a_birth_record_that_cannot_be_read_spares_every_disk(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        own = soap.disks(soap.find(OURS))[0].backing.fileName
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", "vspherefunctions.born=garbage")
        gone = delete(ctx)
    assert [one.vmdk_path for one in gone.detached_volumes] == [own]


def test_a_half_built_machine_keeps_what_lies_outside_its_folder(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        while next(began).phase == "clone":
            pass
        began.close()
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", "vspherefunctions.born=")
        assert not extra(vcenter).get("vspherefunctions.born")
        with_volume(soap)
        gone = delete(ctx)
    assert [one.vmdk_path for one in gone.detached_volumes] == [VOLUME]


def test_no_error_of_a_delete_escapes_unmapped(vcenter: SimulatedVCenter) -> None:
    for fault in ("InvalidState", "NoPermission", "SystemError", "ManagedObjectNotFound"):
        vcenter.control.add_fault("PowerOffVM_Task", fault, count=1)
        with at(vcenter) as ctx:
            create(ctx)
            with pytest.raises(CallError):
                delete(ctx)


@pytest.mark.parametrize(
    "told",
    ['[{"vmdkPath": 7}]', '[{"vmdkPath": "[ds] d.vmdk", "bogus": {}}]', "[" * 30_000, '{"vmdkPath": "d"}'],
)
def test_whatever_a_caller_tells_of_detached_disks_is_no_error(told: str) -> None:
    assert all(
        set(one) <= {"vmdkPath", "uuid", "fcdId"} and one["vmdkPath"] for one in destroy.detached(told)
    )
