"""Delete a machine; what it was not born with survives it.

Promises: every disk that the machine was not born with is taken off, verified and reported before the VM is
destroyed, a volume with its selfLink; what an interrupted delete took off is reported by the next. One that cannot be
taken off stops the delete (FailedPrecondition, nothing destroyed). A machine that is not there is OK, once its absence
is proven; with a providerID only that incarnation counts, so a late delete does not hit a newer machine of the name. A
VM that is out of reach is left alone (Unavailable).
Source: DeleteMachine of Gardener's machine contract; Destroy_Task of the vSphere API.
"""

from vsphere_events.machine import DeleteMachineRequest, DeleteMachineResult, DetachedVolume
from vsphere_events.provider_id import ProviderID
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.destroy import detached, remove
from vsphere_functions.vsphere.find import find_named
from vsphere_functions.vsphere.machine import named_in_errors, provider_id
from vsphere_functions.vsphere.settle import at_work
from vsphere_functions.vsphere.state import State


def delete_machine(request: DeleteMachineRequest, ctx: Context) -> Steps[DeleteMachineResult]:
    """Detach what has to outlive the machine, then destroy it."""
    vcenter, owner = ctx.vcenter(), str(request.provider_spec.owner)
    seen = at_work(vcenter)
    machine, state = yield from find_named(vcenter, owner, request)
    if machine is None:
        ctx.refuse_unfinished(owner, request.machine_name)
        return _result(request.provider_id, state)
    with named_in_errors(machine):
        state = yield from remove(vcenter, ctx.stores, machine, state, seen)
    return _result(provider_id(machine), state)


def _result(identity: ProviderID | None, state: State) -> DeleteMachineResult:
    volumes = tuple(DetachedVolume.model_validate(one) for one in detached(state.detached))
    return DeleteMachineResult(
        provider_id=identity, detached_volumes=volumes, last_known_state=str(state.at("gone"))
    )
