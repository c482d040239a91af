"""Finish a half-built machine.

Promises: as create_machine, but nothing is ever cloned: a machine that is not there is NotFound, once its absence is
proven, and one whose clone still runs is waited for. Gardener's controller calls it when status says Uninitialized.
Source: InitializeMachine of Gardener's machine contract; ReconfigVM_Task and PowerOnVM_Task of the vSphere API.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import InitializeMachineRequest, InitializeMachineResult
from vsphere_functions.context import Context
from vsphere_functions.machine.create_machine import finish, wanted
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.find import adopt, find_machine, find_own
from vsphere_functions.vsphere.machine_volumes import mounting


def initialize_machine(request: InitializeMachineRequest, ctx: Context) -> Steps[InitializeMachineResult]:
    """Finish the machine that an earlier create began."""
    want, vcenter = wanted(request, ctx), ctx.vcenter()
    machine = yield from find_own(vcenter, want)
    if machine is None:
        machine = find_machine(vcenter, want.owner, want.machine)
    if machine is None:
        ctx.refuse_unfinished(want.owner, want.machine)
        raise CallError(Code.NOT_FOUND, f"there is no machine {want.machine} of {want.owner} to finish")
    machine = adopt(machine, want)
    made = yield from finish(vcenter, machine, mounting(vcenter, machine, want))
    return InitializeMachineResult(**dict(made))
