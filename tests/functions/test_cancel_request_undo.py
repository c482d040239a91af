"""What a canceled create leaves behind: nothing of its own, and all of what is another's."""

from collections.abc import Generator
from itertools import islice
from typing import Any

import pytest

from support.gateway import error_of
from support.machines import at, create, creation, delete, end, extra, foreign, initialize, status, vms
from support.proxy import Proxy
from support.soap import Soap
from support.volumes import contents, creating, duplicating, get, with_stores
from support.volumes import create as create_volume
from support.wire import without_config
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import CopyVolumeRequest, CreateVolumeRequest
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine, undo_create_machine
from vsphere_functions.steps import Step
from vsphere_functions.volume.copy_volume import undo_copy_volume
from vsphere_functions.volume.create_volume import undo_create_volume

XSI = (
    ' xmlns:_XMLSchema-instance="http://www.w3.org/2001/XMLSchema-instance"'
    ' _XMLSchema-instance:type="xsd:boolean"'
)
OURS = "/DC0/vm/demo/machines/worker-1"
STEPS = range(9)
"""How many steps are taken before the end comes; a create has eight."""


def killed(steps: Generator[Step, None, Any], count: int) -> str | None:
    """Take some steps and close it as a dying process would; the last state that was recorded."""
    taken = list(islice(steps, count))
    steps.close()
    return taken[-1].state if taken else None


def canceled(steps: Generator[Step, None, Any]) -> CallError:
    """Say at the function's present step that it is to stop; a task that runs is waited for."""
    stop = CallError(Code.CANCELED, "stop")
    with pytest.raises(CallError, match="stop"):
        _stop(steps, stop)
    return stop


def _stop(steps: Generator[Step, None, Any], stop: CallError) -> None:
    steps.throw(stop)
    end(steps)


def undo(ctx: Context, state: str | None = None, taken: list[Step] | None = None, **spec: Any) -> None:
    """Undo a create of worker-1."""
    end(undo_create_machine(creation(state=state, **spec), ctx), taken)


def undo_volume(ctx: Context, volume_id: str = "data-1") -> None:
    """Undo a create of a volume."""
    end(undo_create_volume(CreateVolumeRequest.parse({"id": volume_id}), ctx))


def undo_copy(ctx: Context, volume_id: str, taken: list[Step] | None = None) -> None:
    """Undo a copy of the volume `source`."""
    end(undo_copy_volume(CopyVolumeRequest.parse({"id": "source", "toId": volume_id}), ctx), taken)


@pytest.mark.parametrize("count", STEPS)
def test_a_create_that_was_killed_after_any_step_is_undone(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    before = vms(shared_vcenter)
    with at(shared_vcenter) as ctx:
        for recorded in (True, False):
            state = killed(create_machine(creation(), ctx), count)
            undo(ctx, state if recorded else None)
            assert vms(shared_vcenter) == before


@pytest.mark.parametrize("recorded", [True, False])
def test_a_clone_that_runs_is_waited_for_by_its_record_or_by_its_template(
    vcenter: SimulatedVCenter, recorded: bool
) -> None:
    before = vms(vcenter)
    vcenter.control.delay(CloneVm=1500)
    with at(vcenter) as ctx:
        broken = create_machine(creation(), ctx)
        state = next(broken).state
        canceled(broken)
        taken: list[Step] = []
        if recorded:
            undo(ctx, state, taken, templateVM="templates/renamed meanwhile")
        else:
            undo(ctx, None, taken)
        assert taken[0].message.startswith("waiting for the clone")
        assert vms(vcenter) == before
        assert vcenter.control.calls()["CancelTask"] == 0
        vcenter.control.delay(CloneVm=0)
        create(ctx)
        assert status(ctx).phase == "Running"


def test_a_clone_that_can_be_canceled_is(vcenter: SimulatedVCenter) -> None:
    """The simulator's cannot, and go on all the same: what counts is what is asked of the vCenter."""
    vcenter.control.delay(CloneVm=1000)
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        at(vcenter, proxy.port) as ctx,
    ):
        proxy.replace(f"info.cancelable</name><val{XSI}>false<", f"info.cancelable</name><val {XSI}>true<")
        broken = create_machine(creation(), ctx)
        next(broken)
        canceled(broken)
    assert vcenter.control.calls()["CancelTask"] == 1


def test_undoing_goes_on_where_it_was_interrupted(shared_vcenter: SimulatedVCenter) -> None:
    before = vms(shared_vcenter)
    with at(shared_vcenter) as ctx:
        for count in range(1, 7):
            state = killed(create_machine(creation(), ctx), 6)
            killed(undo_create_machine(creation(state=state), ctx), count)
            undo(ctx, state)
            assert vms(shared_vcenter) == before


def test_a_machine_that_is_finished_and_not_answered_is_undone(shared_vcenter: SimulatedVCenter) -> None:
    before = vms(shared_vcenter)
    with at(shared_vcenter) as ctx:
        undo(ctx, create(ctx).last_known_state)
    assert vms(shared_vcenter) == before


def test_a_copy_of_the_machine_that_carries_its_mark_is_not_undone(vcenter: SimulatedVCenter) -> None:
    """vCenter's own clones and restores carry it, the request's name included."""
    with at(vcenter) as ctx:
        made = create(ctx)
        copy = foreign(vcenter, "copy")
        mark = extra(vcenter)["vspherefunctions.mark"]
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", copy, "-e", f"vspherefunctions.mark={mark}")
        undo(ctx, made.last_known_state)
    assert OURS not in vms(vcenter)
    assert copy in vms(vcenter)


def test_nothing_is_undone_while_a_vm_that_may_be_it_cannot_be_read(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(vcenter) as ctx:
        state = create(ctx).last_known_state
        without_config(monkeypatch, "worker-1")
        assert error_of(undo, ctx, state).code is Code.UNAVAILABLE
        monkeypatch.undo()
        undo(ctx, state)
    assert OURS not in vms(vcenter)


def test_what_a_create_has_adopted_is_not_its_own_to_undo(shared_vcenter: SimulatedVCenter) -> None:
    with at(shared_vcenter) as maker, at(shared_vcenter) as adopter:
        made = create(maker)
        adopted = create(adopter)
        undo(adopter, adopted.last_known_state)
        assert status(maker).provider_id == made.provider_id
        delete(maker)


@pytest.mark.parametrize("finish", [create, initialize])
@pytest.mark.parametrize("count", [2, len(STEPS)])
def test_what_another_request_has_gone_on_with_is_nobodys_to_undo(
    shared_vcenter: SimulatedVCenter, finish: Any, count: int
) -> None:
    with at(shared_vcenter) as maker, at(shared_vcenter) as adopter:
        state = killed(create_machine(creation(), maker), count)
        made = finish(adopter)
        undo(maker, state)
        assert status(adopter).provider_id == made.provider_id
        assert "maker" not in extra(shared_vcenter)["vspherefunctions.mark"]
        delete(adopter)


def test_a_request_that_has_found_nothing_of_its_own_leaves_the_others(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx, "worker-2")
        foreign(vcenter)
        before = vms(vcenter)
        undo(ctx)  # worker-2 has the same maker here, and another name
    assert vms(vcenter) == before


def test_a_volume_that_was_attached_meanwhile_survives(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        state = create(ctx).last_known_state
        soap.make_folder("[we ird (1)] vols")
        soap.create_disk("[we ird (1)] vols/data.vmdk")
        soap.attach(soap.find(OURS), "[we ird (1)] vols/data.vmdk")
        taken: list[Step] = []
        undo(ctx, state, taken)
        assert vms(vcenter) == before
        assert "data.vmdk" in taken[-1].state
        assert soap.disk_uuid("[we ird (1)] vols/data.vmdk")


def test_a_machine_that_is_out_of_reach_is_not_called_undone(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        state = killed(create_machine(creation(), ctx), 3)
        vcenter.govc("vm.change", "-vm", OURS, "-e", "SET.runtime.connectionState=disconnected")
        assert error_of(undo, ctx, state).code is Code.UNAVAILABLE
    assert OURS in vms(vcenter)


@pytest.mark.parametrize("count", range(13))
def test_a_volume_whose_create_was_killed_is_swept_unless_it_is_whole(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    volume_id = f"data-{count}"
    with with_stores(shared_vcenter) as ctx:
        killed(creating(ctx, volume_id), count)
        was_whole = "volume.json" in contents(ctx).get(volume_id, [])
        undo_volume(ctx, volume_id)
        assert (volume_id in contents(ctx)) == was_whole
        if was_whole:
            assert get(ctx, volume_id).state == "ready"


@pytest.mark.parametrize("count", range(13))
def test_a_copy_that_was_killed_is_swept_unless_it_is_whole(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    with with_stores(shared_vcenter) as ctx:
        create_volume(ctx, "source")
        before = contents(ctx)["source"]
        killed(duplicating(ctx, f"copy-{count}", "source"), count)
        was_whole = "volume.json" in contents(ctx).get(f"copy-{count}", [])
        undo_copy(ctx, f"copy-{count}")
        assert (f"copy-{count}" in contents(ctx)) == was_whole
        assert contents(ctx)["source"] == before


def test_a_copy_whose_worker_died_is_waited_for(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create_volume(ctx, "source")
        vcenter.control.delay(CopyVirtualDisk=1500)
        copying = duplicating(ctx, "copy", "source")
        next(step for step in copying if step.phase == "copy")
        copying.close()
        taken: list[Step] = []
        undo_copy(ctx, "copy", taken)
        assert taken[0].message == "waiting for the copy to end"
        assert contents(ctx).keys() == {"", "source"}


def test_a_volume_that_another_makes_or_has_made_is_left_alone(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter) as other:
        create_volume(other)
        killed(creating(other, "data-2"), 4)
        before = contents(ctx)
        undo_volume(ctx)
        undo_volume(ctx, "data-2")
        assert contents(ctx) == before
