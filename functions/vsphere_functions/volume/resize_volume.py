"""Grow a volume, attached or not.

Promises: a volume only grows, and the size that it has already is fine; sizes round up to whole MiB. The disk grows
first, then its size is written down in one move: after an interruption the next request finishes it. It grows in
its place when no VM has it, and on the machine when one of ours has it, whatever its owner and its power state: that
changes the volume's device and nothing else of the machine. FailedPrecondition, naming them, when other VMs, a
template or a snapshot hold it. The guest's file system does not grow by itself.
Source: ExtendVirtualDisk and ReconfigVM of the vSphere API.
"""

from vsphere_events.volume import ResizeVolumeRequest, ResizeVolumeResult
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.in_use import InUse, see_all
from vsphere_functions.vsphere.settle import settle
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.volumes import find_leaf, not_found, volume_of
from vsphere_functions.vsphere.volumes_grow import Growing
from vsphere_functions.vsphere.volumes_room import refuse_too_large
from vsphere_functions.vsphere.volumes_whole import read_whole


def resize_volume(request: ResizeVolumeRequest, ctx: Context) -> Steps[ResizeVolumeResult]:
    """Find the volume and who has it, grow the disk, write its size down."""
    key = request.key(ctx.label)
    refuse_too_large(ctx.stores.named(key.store), request.capacity_kb)
    vcenter = ctx.vcenter()
    see_all(vcenter)
    state = State.of(None, vcenter.session.instance_uuid, str(key))
    yield from settle(vcenter, state)
    seen = InUse.look(vcenter, ctx.stores)
    leaf = find_leaf(seen.surroundings.store(key.store), key.id)
    if leaf is None or leaf.foreign:
        raise not_found(key, ctx.stores, named=bool(request.store or request.self_link))
    told = read_whole(leaf, seen, ctx.operation, ctx.clock())
    told = yield from Growing(vcenter, seen, leaf, told, request.capacity_kb, state).run()
    return ResizeVolumeResult(volume=volume_of(leaf, told, seen.on([told.uuid], leaf.spots)))
