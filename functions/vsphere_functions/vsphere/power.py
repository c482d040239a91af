"""Power on and off: a machine that is in the wanted state already is a success."""

from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.faults import fault_of
from vsphere_functions.vsphere.follow import change
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


def power_on(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Power the machine on unless it is."""
    state = want.state_at(vcenter, "power_on", machine)
    yield from _power(vcenter, machine, state, "PowerOnVM_Task", "poweredOn")


def power_off(vcenter: VCenter, machine: Machine, state: State) -> Steps[None]:
    """Cut the machine's power unless it is off."""
    yield from _power(vcenter, machine, state.at("power_off"), "PowerOffVM_Task", "poweredOff")


def _power(vcenter: VCenter, machine: Machine, state: State, method: str, wanted: str) -> Steps[None]:
    if machine.power == wanted:
        return
    try:
        yield from change(vcenter, state.phase, machine.ref, method, state, f"the machine is being {wanted}")
    except CallError as error:
        fault = fault_of(error)
        if fault is None or fault.name != "InvalidPowerState" or fault.fields.get("existingState") != wanted:
            raise
    yield Step(state.phase, str(state), f"the machine is {wanted}")
