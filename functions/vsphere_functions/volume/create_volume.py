"""Make a volume: a disk that outlives the machines it is attached to.

Promises: one volume for one id in one store, however often and from wherever it is asked for; the same size and info
again are the same volume, another size or info AlreadyExists. It is whole once its metadata is there; what an
interrupted create has left the next one finishes. A create that fails removes what it made, and nothing else. Without
an id the request's own identity names it, so that a redelivery makes no second one. Sizes round up to whole MiB.
Source: VolumeCreate of VIC's volume support; FileManager, VirtualDiskManager and file access of the vSphere API.
"""

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_events.volume import CreateVolumeRequest, CreateVolumeResult, VolumeKey
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.files import Disk
from vsphere_functions.vsphere.in_use import WHERE, InUse
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Store, look_around
from vsphere_functions.vsphere.volumes import browse, volume_of
from vsphere_functions.vsphere.volumes_create import Making, WantedVolume
from vsphere_functions.vsphere.volumes_list import capacities


def create_volume(request: CreateVolumeRequest, ctx: Context) -> Steps[CreateVolumeResult]:
    """Make the volume, or finish the one that an earlier delivery began."""
    if request.storage_policy is not None:
        raise CallError(Code.UNIMPLEMENTED, "not built yet: storagePolicy; nothing was changed")
    key = VolumeKey.of(ctx.label, request.store, request.id or ctx.operation)
    config = ctx.stores.named(key.store)
    disk = Disk(request.capacity_kb or config.default_kb, request.disk_format)
    if config.largest_kb is not None and disk.capacity_kb > config.largest_kb:
        reason = f"volumes of store {config.name} have at most {config.largest_kb} KiB"
        raise problems((Detail(reason, "capacityKB"),))
    vcenter = ctx.vcenter()
    store = look_around(vcenter, ctx.stores, WHERE).store(key.store)
    _refuse_without_room(store, key.id, disk)
    want = WantedVolume(key.id, disk, request.info, ctx.operation, ctx.clock)
    state = State.of(None, vcenter.session.instance_uuid, str(key))
    leaf, told = yield from Making(vcenter, ctx.stores, store, want, state).run()
    attached = InUse.look(vcenter, ctx.stores).on([told.uuid], leaf.spots) if leaf.has_metadata else ()
    return CreateVolumeResult(volume=volume_of(leaf, told, attached))


def _refuse_without_room(store: Store, volume_id: str, disk: Disk) -> None:
    """Refuse what goes over the store's limits, or does not fit; a volume that stands already takes no room."""
    config, thick = store.config, disk.format != "thin" and disk.capacity_kb > store.free_kb
    if not thick and config.volumes is None and config.total_kb is None:
        return
    leaves, _ = browse(store)
    if volume_id in leaves and leaves[volume_id].has_metadata:
        return
    others = [leaf for name, leaf in leaves.items() if name != volume_id and not leaf.foreign]
    if thick:
        what = f"{store.datastore} has {store.free_kb} KiB left"
    elif config.volumes is not None and len(others) >= config.volumes:
        what = f"it has {len(others)} volumes of at most {config.volumes}"
    elif config.total_kb is not None and (used := capacities(others)) + disk.capacity_kb > config.total_kb:
        what = f"its volumes have {used} KiB of at most {config.total_kb}"
    else:
        return
    raise CallError(Code.RESOURCE_EXHAUSTED, f"store {config.name} has no room for this: {what}")
