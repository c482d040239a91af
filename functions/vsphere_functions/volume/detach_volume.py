"""Detach a volume, or a disk by its path, from a machine that stands, running or not.

Promises: its files stay. A disk that is not on the machine is OK, whoever else has it; one that the machine was born
with, or that a snapshot holds, is not taken off (FailedPrecondition). A volume that was moved elsewhere is found by its
disk's uuid. The guest is not asked: let it unmount the file system first.
Source: VIC's volume support; ReconfigVM_Task of the vSphere API.
"""

from vsphere_events.volume import DetachVolumeRequest, DetachVolumeResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.volume.attach_volume import disk_named, machine_of
from vsphere_functions.vsphere.attach import detach
from vsphere_functions.vsphere.machine import named_in_errors, provider_id


def detach_volume(request: DetachVolumeRequest, ctx: Context) -> Steps[DetachVolumeResult]:
    """Find the machine and the disk, and part them."""
    name, vcenter = disk_named(request, ctx), ctx.vcenter()
    machine, state = yield from machine_of(request, ctx, vcenter)
    with named_in_errors(machine):
        volume = yield from detach(vcenter, ctx.stores, machine, name, state)
    return DetachVolumeResult(
        provider_id=provider_id(machine), volume=volume, last_known_state=str(state.at("detach"))
    )
