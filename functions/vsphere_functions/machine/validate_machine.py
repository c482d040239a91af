"""Say what a create would be refused for, and change nothing.

Promises: every violation of the request, every name that means nothing or too much, and every privilege that the
account lacks, at once; succeeded even when there are some. What a name could mean instead is among the candidates.
Whether a machine of the name stands already it does not look: a create finishes that one, or ends AlreadyExists.
Source: the checks of create_machine; HasUserPrivilegeOnEntities of the vSphere API.
"""

from vsphere_events.machine import MissingPrivilege, ValidateMachineRequest, ValidateMachineResult
from vsphere_events.outcome import ErrorDetail
from vsphere_functions.context import Context
from vsphere_functions.machine.create_machine import wanted
from vsphere_functions.vsphere.place import look
from vsphere_functions.vsphere.privileges import missing_privileges


def validate_machine(request: ValidateMachineRequest, ctx: Context) -> ValidateMachineResult:
    """List what a create of this would be refused for."""
    wrong, rest = list(request.violations()), request.rest()
    if rest is None:
        return ValidateMachineResult(violations=tuple(map(ErrorDetail.of, wrong)))
    vcenter = ctx.vcenter()
    seen = look(vcenter, wanted(rest, ctx))
    missing = missing_privileges(vcenter, seen.found)
    return ValidateMachineResult(
        violations=tuple(map(ErrorDetail.of, [*wrong, *seen.wrong, *seen.volumes.all_wrong])),
        missing_privileges=tuple(MissingPrivilege(**one._asdict()) for one in missing),
    )
