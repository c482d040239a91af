"""Shut a machine down.

Promises: `soft` asks the guest and nothing else (FailedPrecondition without VMware Tools, or when the guest does not
go down in time); `hard` cuts the power; `trySoft` asks the guest and cuts the power when that does not help. The
time-out counts from the first try of the request, over all its tries. A suspended machine is powered off. A
machine that is off already is OK; one that is not there is NotFound, once its absence is proven.
Source: ShutDownMachine of Gardener's vSphere plugin; ShutdownGuest and PowerOffVM_Task of the vSphere API.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import PowerState, ShutDownMachineRequest, ShutDownMachineResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.destroy import refuse_question
from vsphere_functions.vsphere.find import find_named
from vsphere_functions.vsphere.guest import Patience, shut_down_guest
from vsphere_functions.vsphere.machine import named_in_errors, provider_id
from vsphere_functions.vsphere.power import power_off


def shut_down_machine(request: ShutDownMachineRequest, ctx: Context) -> Steps[ShutDownMachineResult]:
    """Bring the machine to a stop, as softly as the mode says."""
    vcenter, owner = ctx.vcenter(), str(request.provider_spec.owner)
    machine, state = yield from find_named(vcenter, owner, request)
    if machine is None:
        ctx.refuse_unfinished(owner, request.machine_name)
        raise CallError(Code.NOT_FOUND, f"there is no machine {request.machine_name} of {owner}")
    patience = Patience.of(request, ctx.clock)
    softly = request.mode != "hard" and machine.power == PowerState.ON
    with named_in_errors(machine):
        refuse_question(machine)
        if not (softly and (yield from shut_down_guest(vcenter, machine, state, patience))):
            yield from power_off(vcenter, machine, state)
    return ShutDownMachineResult(
        provider_id=provider_id(machine),
        power_state=PowerState.OFF,
        last_known_state=str(state.at("shut_down")),
    )
