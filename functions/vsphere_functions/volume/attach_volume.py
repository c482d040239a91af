"""Attach a volume, or a disk by its path, to a machine that stands, running or not.

Promises: a disk that is on the machine already is OK. It goes to a free slot of a SCSI controller, never to the
controller's own; a controller is added when the others are full, up to four with 15 disks each (ResourceExhausted
past that). Snapshots leave it alone; what a guest writes to a `readOnly` one is discarded when it is powered off. A
volume is on one machine only: one that another VM, template or snapshot holds is refused, naming the holder. So are
one with a snapshot, one that is not whole, and a machine that is half built (FailedPrecondition), and a disk that a
VM out of reach may hold (Unavailable); nothing is changed then. What vCenter still does for a request that was cut
short is waited for before anything is judged.
Source: VolumeJoin of VIC's volume support; ReconfigVM_Task of the vSphere API.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import AttachVolumeRequest, AttachVolumeResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.attach import attach
from vsphere_functions.vsphere.destroy import refuse_question
from vsphere_functions.vsphere.find import find_named
from vsphere_functions.vsphere.in_use import see_all
from vsphere_functions.vsphere.machine import Machine, named_in_errors, provider_id
from vsphere_functions.vsphere.named_disk import DiskName
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter


def attach_volume(request: AttachVolumeRequest, ctx: Context) -> Steps[AttachVolumeResult]:
    """Find the machine and the disk, and bring them together."""
    name, vcenter = disk_named(request, ctx), ctx.vcenter()
    see_all(vcenter)
    machine, state = yield from machine_of(request, ctx, vcenter)
    with named_in_errors(machine):
        (volume,) = yield from attach(vcenter, ctx.stores, machine, [name], state)
    return AttachVolumeResult(
        provider_id=provider_id(machine), volume=volume, last_known_state=str(state.at("attach"))
    )


def disk_named(request: AttachVolumeRequest, ctx: Context) -> DiskName:
    """Say which disk is meant; InvalidArgument for a store that is not configured."""
    name = DiskName.of(request, ctx.label)
    if name.key is not None:
        ctx.stores.named(name.key.store)
    return name


def machine_of(request: AttachVolumeRequest, ctx: Context, vcenter: VCenter) -> Steps[tuple[Machine, State]]:
    """Find the machine, after the task that an earlier try has recorded; NotFound once its absence is proven."""
    owner = str(request.provider_spec.owner)
    machine, state = yield from find_named(vcenter, owner, request)
    if machine is None:
        ctx.refuse_unfinished(owner, request.machine_name)
        raise CallError(Code.NOT_FOUND, f"there is no machine {request.machine_name} of {owner}")
    with named_in_errors(machine):
        refuse_question(machine)
    return machine, state
