"""shut_down_machine on the simulated vCenter."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from support.gateway import error_of
from support.machines import OTHERS, at, begun_shut_down, create, delete, info, shut_down, status
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.steps import Step

OURS = "/DC0/vm/demo/machines/worker-1"
TOOLS = "SET.guest.toolsRunningStatus=guestToolsRunning"


def power(vcenter: SimulatedVCenter) -> str:
    return str(info(vcenter)["runtime"]["powerState"])


def with_tools(vcenter: SimulatedVCenter) -> None:
    vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", TOOLS)


@pytest.mark.parametrize("mode", ["soft", "trySoft", "hard"])
def test_a_machine_with_tools_is_shut_down_in_every_mode(vcenter: SimulatedVCenter, mode: str) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        with_tools(vcenter)
        vcenter.control.reset_calls()
        down = shut_down(ctx, mode=mode)
        assert (down.provider_id, down.power_state) == (made.provider_id, "poweredOff")
        calls = vcenter.control.calls()
        assert (calls["ShutdownGuest"], calls["PowerOffVM_Task"]) == ((0, 1) if mode == "hard" else (1, 0))
        assert status(ctx).phase == "Stopped"
        assert shut_down(ctx, mode=mode) == down.model_copy(
            update={"last_known_state": down.last_known_state}
        )


def test_m40_without_tools_soft_is_refused_and_the_machine_runs_on(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        failed = error_of(shut_down, ctx, mode="soft")
    assert (failed.code, failed.provider_id) == (Code.FAILED_PRECONDITION, str(made.provider_id))
    assert "VMware Tools" in failed.message
    assert power(vcenter) == "poweredOn"
    assert vcenter.control.calls()["ShutdownGuest"] == 0


def test_m40_without_tools_try_soft_goes_hard(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        shut_down(ctx)
    assert power(vcenter) == "poweredOff"
    assert vcenter.control.calls()["ShutdownGuest"] == 0


@pytest.mark.parametrize("fault", ["ToolsUnavailable", "InvalidState"])
def test_m40_tools_that_go_away_are_no_tools(vcenter: SimulatedVCenter, fault: str) -> None:
    vcenter.control.add_fault("ShutdownGuest", fault)
    with at(vcenter) as ctx:
        create(ctx)
        with_tools(vcenter)
        assert error_of(shut_down, ctx, mode="soft").code is Code.FAILED_PRECONDITION
        shut_down(ctx)
    assert power(vcenter) == "poweredOff"


class Clock:
    """A clock that the test moves on."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 29, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def on(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)


def deaf(vcenter: SimulatedVCenter) -> Callable[[], None]:
    """A guest that takes its time: the call that asks it is answered, and nothing comes of it."""
    vcenter.control.add_fault("ShutdownGuest", "InvalidPowerState")
    return vcenter.control.clear_faults


@pytest.mark.parametrize("mode", ["soft", "trySoft"])
def test_m40_the_time_out_counts_across_retries(vcenter: SimulatedVCenter, mode: str) -> None:
    clock = Clock()
    with at(vcenter, clock=clock) as ctx:
        create(ctx)
        with_tools(vcenter)
        deaf(vcenter)
        taken: list[Step] = []
        first = begun_shut_down(ctx, mode=mode, timeoutSeconds=300)
        state = next(first).state
        first.close()  # the worker's own time is over
        assert json.loads(state)["since"] == "2026-11-29T12:00:00+00:00"
        clock.on(301)
        if mode == "soft":
            failed = error_of(shut_down, ctx, mode=mode, timeoutSeconds=300, lastKnownState=state)
            assert failed.code is Code.FAILED_PRECONDITION
            assert power(vcenter) == "poweredOn"
        else:
            shut_down(ctx, taken=taken, mode=mode, timeoutSeconds=300, lastKnownState=state)
            assert power(vcenter) == "poweredOff"


@pytest.mark.parametrize("since", ["yesterday", "2099-01-01T00:00:00+00:00", "2026-11-29T12:00:00", ""])
def test_a_state_that_lies_about_the_time_gains_nothing(vcenter: SimulatedVCenter, since: str) -> None:
    clock = Clock()
    with at(vcenter, clock=clock) as ctx:
        create(ctx)
        with_tools(vcenter)
        deaf(vcenter)
        first = begun_shut_down(ctx, mode="soft", timeoutSeconds=300)
        state = json.dumps(json.loads(next(first).state) | {"since": since})
        first.close()
        again = begun_shut_down(ctx, mode="soft", timeoutSeconds=300, lastKnownState=state)
        assert json.loads(next(again).state)["since"] == "2026-11-29T12:00:00+00:00"
        again.close()


def test_a_suspended_machine_is_powered_off(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("vm.power", "-suspend", OURS)
        assert shut_down(ctx, mode="soft").power_state == "poweredOff"
    assert power(vcenter) == "poweredOff"


def test_what_is_not_there_is_not_found(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        assert error_of(shut_down, ctx, "worker-2").code is Code.NOT_FOUND
        failed = error_of(shut_down, ctx, providerSpec={"tags": OTHERS})
    assert failed.code is Code.NOT_FOUND
    assert power(vcenter) == "poweredOn"


def test_a_late_shut_down_does_not_hit_the_next_machine_of_the_name(vcenter: SimulatedVCenter) -> None:
    """With a providerID only that incarnation counts, and it is gone."""
    with at(vcenter) as ctx:
        first = create(ctx)
        delete(ctx)
        create(ctx)
        late = error_of(shut_down, ctx, mode="hard", providerID=str(first.provider_id))
        assert late.code is Code.NOT_FOUND
    assert power(vcenter) == "poweredOn"
