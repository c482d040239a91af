"""What is asked of a guest, by VMware Tools in it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import ShutDownMachineRequest
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter

_PAUSE = 1.0
"""Seconds between two looks at a guest that is going down."""

_NO_TOOLS = {"ToolsUnavailable", "InvalidState"}


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a guest may take, and whether there is nothing to do after that but to give up."""

    seconds: int
    clock: Callable[[], datetime]
    only: bool

    @classmethod
    def of(cls, request: ShutDownMachineRequest, clock: Callable[[], datetime]) -> Self:
        """Read a request's mode and time-out."""
        return cls(request.timeout_seconds, clock, only=request.mode == "soft")


def shut_down_guest(vcenter: VCenter, machine: Machine, state: State, patience: Patience) -> Steps[bool]:
    """Ask the guest to go down and wait; whether it did. The time counts from the first try, which the state has.

    With `patience.only`, a guest that cannot be asked or does not go down is FailedPrecondition.
    """
    reason = "no VMware Tools run in it"
    if machine.tools and _asked(vcenter, machine):
        since = state.began(patience.clock())
        state = state.at("shut_down").since_when(since)
        message = "the guest is going down"
        yield Step("shut_down", str(state), message)
        while _power(vcenter, machine) != "poweredOff":
            if patience.clock() >= since + timedelta(seconds=patience.seconds):
                break
            time.sleep(_PAUSE)
            yield Step("shut_down", str(state), message)
        else:
            return True
        reason = f"its guest did not go down in {patience.seconds} s"
    if patience.only:
        raise CallError(
            Code.FAILED_PRECONDITION,
            f"the machine {machine.name!r} cannot be shut down softly: {reason}",
            last_known_state=str(state),
        )
    return False


def _asked(vcenter: VCenter, machine: Machine) -> bool:
    try:
        vcenter.change("shut_down", machine.ref, "ShutdownGuest")
    except CallError as error:
        if fault_name(error) in _NO_TOOLS:
            return False
        if fault_name(error) != "InvalidPowerState":  # it went down meanwhile: the look that follows tells
            raise
    return True


def _power(vcenter: VCenter, machine: Machine) -> str | None:
    row = vcenter.read([machine.ref], {"VirtualMachine": ["runtime.powerState"]}).get(machine.ref, {})
    return row.get("runtime.powerState")
