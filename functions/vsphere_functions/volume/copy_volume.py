"""Copy a volume to another id, store or datacenter of the same vCenter.

Promises: the copy has the source's size and info and a disk of its own, and is made like any other volume: claimed by
its folder, whole once its metadata is there, finished by the next request after an interruption, and nothing of it
left when it fails or is canceled. The source is not changed, and not copied while something may write to it:
FailedPrecondition, naming the machines, unless those that have it are off. A copy of the same disk that stands already,
of the same size, is fine; any other volume of that id is AlreadyExists, also an empty one. Volumes of VIC's are copied
like others. Limits are those of the target's store.
Source: CopyVirtualDisk of the vSphere API, which lets vCenter choose how the copy's blocks are allocated.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_events.volume import CopyVolumeRequest, CopyVolumeResult, VolumeKey
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.files import Disk
from vsphere_functions.vsphere.in_use import InUse, see_all
from vsphere_functions.vsphere.settle import settle
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.volumes import Leaf, find_leaf, not_found, volume_of
from vsphere_functions.vsphere.volumes_copy import Copying, refuse_written
from vsphere_functions.vsphere.volumes_create import WantedVolume
from vsphere_functions.vsphere.volumes_room import refuse_too_large, refuse_without_room
from vsphere_functions.vsphere.volumes_undo import undo_volume
from vsphere_functions.vsphere.volumes_whole import read_whole


def copy_volume(request: CopyVolumeRequest, ctx: Context) -> Steps[CopyVolumeResult]:
    """Make a volume of the target's id whose disk is a copy of the source's."""
    key = request.key(ctx.label)
    to = VolumeKey.of(ctx.label, request.to_store or key.store, request.to_id)
    if to == key:
        raise problems((Detail("a volume is no copy of itself", "toId"),))
    ctx.stores.named(key.store)
    ctx.stores.named(to.store)
    try:
        return (yield from _copy(request, ctx, key, to))
    except CallError as error:
        if not error.code.retryable:
            # An earlier try may have begun, before the source went away or was taken up.
            yield from undo_copy_volume(request, ctx)
        raise


def _copy(request: CopyVolumeRequest, ctx: Context, key: VolumeKey, to: VolumeKey) -> Steps[CopyVolumeResult]:
    config, vcenter = ctx.stores.named(to.store), ctx.vcenter()
    see_all(vcenter)
    state = State.of(None, vcenter.session.instance_uuid, str(to))
    yield from settle(vcenter, state)
    seen = InUse.look(vcenter, ctx.stores)
    store = seen.surroundings.store(to.store)
    source = find_leaf(seen.surroundings.store(key.store), key.id)
    if source is None or source.foreign:
        raise not_found(key, ctx.stores, named=bool(request.store or request.self_link))
    told = read_whole(source, seen, ctx.operation, ctx.clock())
    standing = find_leaf(store, to.id)
    if standing is None or not standing.has_metadata:
        refuse_written(vcenter, seen, source, [told.uuid])
    disk = Disk(_size(source, told.capacity_kb), told.format)
    refuse_too_large(config, disk.capacity_kb, "toStore")
    refuse_without_room(store, to.id, disk)
    origin = told.uuid or source.store.files.disk_uuid(source.disk)
    want = WantedVolume(to.id, disk, told.info, ctx.operation, ctx.clock, origin)
    leaf, made = yield from Copying(vcenter, ctx.stores, store, want, state, source).run()
    attached = InUse.look(vcenter, ctx.stores).on([made.uuid], leaf.spots) if leaf.has_metadata else ()
    return CopyVolumeResult(volume=volume_of(leaf, made, attached))


def _size(source: Leaf, written: int | None) -> int:
    """Return the size of a disk, as vCenter tells it or as it was written down."""
    size = source.store.files.capacity_kb(source.disk) or written
    if size is None:
        raise CallError(Code.FAILED_PRECONDITION, f"nothing tells the size of volume {source.id!r}")
    return size


def undo_copy_volume(request: CopyVolumeRequest, ctx: Context) -> Steps[None]:
    """Remove what a canceled request has made of its copy."""
    to = VolumeKey.of(ctx.label, request.to_store or request.key(ctx.label).store, request.to_id)
    yield from undo_volume(ctx.vcenter(), ctx.stores, to, ctx.operation)
