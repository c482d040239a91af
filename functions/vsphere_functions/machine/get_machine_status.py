"""Say how a machine is.

Promises: changes nothing. NotFound only when the absence is proven. A machine whose clone runs is Aborted, one
that is half built is Uninitialized (with providerID and nodeName), one that is out of reach is Unavailable; none
of these is ever taken for absent.
Source: GetMachineStatus of Gardener's machine contract; PropertyCollector of the vSphere API.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import GetMachineStatusRequest, GetMachineStatusResult, Phase, PowerState
from vsphere_functions.context import Context
from vsphere_functions.vsphere.find import find_machine
from vsphere_functions.vsphere.machine import STATUS, addresses, node_name, provider_id


def get_machine_status(request: GetMachineStatusRequest, ctx: Context) -> GetMachineStatusResult:
    """Return the machine's identity, power state and phase."""
    vcenter, owner = ctx.vcenter(), str(request.provider_spec.owner)
    machine = find_machine(vcenter, owner, request.machine_name, request.provider_id, STATUS)
    if machine is None:
        ctx.refuse_unfinished(owner, request.machine_name)
        raise CallError(
            Code.NOT_FOUND, f"there is no machine {request.machine_name or request.provider_id} of {owner}"
        )
    if not machine.ready:
        raise CallError(
            Code.UNINITIALIZED,
            f"machine {node_name(machine)!r} is half built; a second create finishes it",
            provider_id=str(provider_id(machine)),
            node_name=node_name(machine),
        )
    on = machine.power == PowerState.ON
    return GetMachineStatusResult(
        provider_id=provider_id(machine),
        node_name=node_name(machine),
        power_state=PowerState(machine.power or PowerState.OFF),
        phase=Phase.DELETING if machine.detached else Phase.RUNNING if on else Phase.STOPPED,
        addresses=addresses(machine),
    )
