"""Destroy a volume that nothing holds.

Promises: nothing is deleted before it is shown that no VM refers to the disk: on or off, a template, a snapshot or
its chain, whoever's it is; else FailedPrecondition with their names. The disk is set aside under another name and
looked for once more before it is deleted. A volume that is not there is OK; a half-made one is swept; one whose
disk was moved elsewhere and is in use there is left alone. Files that belong to no volume stay.
Source: VolumeDestroy of VIC's volume support; VirtualDiskManager and FileManager of the vSphere API.
"""

from vsphere_events.volume import DestroyVolumeRequest, DestroyVolumeResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.in_use import InUse, see_all
from vsphere_functions.vsphere.settle import settle
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.volumes import find_leaf
from vsphere_functions.vsphere.volumes_destroy import destroy
from vsphere_functions.vsphere.volumes_whole import refuse_unborn


def destroy_volume(request: DestroyVolumeRequest, ctx: Context) -> Steps[DestroyVolumeResult]:
    """Check that nobody holds it, then remove its disk, its files and its folder."""
    key = request.key(ctx.label)
    ctx.stores.named(key.store)
    vcenter = ctx.vcenter()
    see_all(vcenter)
    state = State.of(None, vcenter.session.instance_uuid, str(key))
    yield from settle(vcenter, state)
    seen = InUse.look(vcenter, ctx.stores)
    leaf = find_leaf(seen.surroundings.store(key.store), key.id)
    if leaf is not None and not leaf.foreign:
        refuse_unborn(leaf, ctx.operation, ctx.clock())
        yield from destroy(vcenter, ctx.stores, leaf, seen, state)
    return DestroyVolumeResult()
