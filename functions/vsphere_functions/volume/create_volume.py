"""Make a volume: a disk that outlives the machines it is attached to.

Promises: one volume for one id in one store, however often and from wherever it is asked for; the same size and info
again are the same volume, another size or info AlreadyExists. It is whole once its metadata is there; what an
interrupted create has left the next one finishes. A create that fails or is canceled removes what it made and has not
finished, and nothing else; a volume that is whole by then stays. Without an id the request's own identity names it, so
that a redelivery makes no second one. Sizes round up to whole MiB.
A storage policy is named by its name; it decides where and how the disk is made, not whether a volume is the same.
A disk that lies in the volume's place is taken for it, unless vCenter says that it has another size.
Source: VolumeCreate of VIC's volume support; FileManager, VirtualDiskManager and file access of the vSphere API; the
Storage Policy API.
"""

from dataclasses import replace

from vsphere_events.volume import CreateVolumeRequest, CreateVolumeResult, VolumeKey
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.files import Disk
from vsphere_functions.vsphere.in_use import WHERE, InUse
from vsphere_functions.vsphere.policies import find_policy
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import look_around
from vsphere_functions.vsphere.volumes import volume_of
from vsphere_functions.vsphere.volumes_create import Making, WantedVolume
from vsphere_functions.vsphere.volumes_room import refuse_too_large, refuse_without_room
from vsphere_functions.vsphere.volumes_undo import undo_volume


def create_volume(request: CreateVolumeRequest, ctx: Context) -> Steps[CreateVolumeResult]:
    """Make the volume, or finish the one that an earlier delivery began."""
    key = VolumeKey.of(ctx.label, request.store, request.id or ctx.operation)
    config = ctx.stores.named(key.store)
    disk = Disk(request.capacity_kb or config.default_kb, request.disk_format)
    refuse_too_large(config, disk.capacity_kb)
    vcenter = ctx.vcenter()
    if request.storage_policy is not None:
        disk = replace(disk, policy=find_policy(vcenter, request.storage_policy))
    store = look_around(vcenter, ctx.stores, WHERE).store(key.store)
    refuse_without_room(store, key.id, disk)
    want = WantedVolume(key.id, disk, request.info, ctx.operation, ctx.clock)
    state = State.of(None, vcenter.session.instance_uuid, str(key))
    leaf, told = yield from Making(vcenter, ctx.stores, store, want, state).run()
    attached = InUse.look(vcenter, ctx.stores).on([told.uuid], leaf.spots) if leaf.has_metadata else ()
    return CreateVolumeResult(volume=volume_of(leaf, told, attached))


def undo_create_volume(request: CreateVolumeRequest, ctx: Context) -> Steps[None]:
    """Remove what a canceled request has made of its volume."""
    key = VolumeKey.of(ctx.label, request.store, request.id or ctx.operation)
    yield from undo_volume(ctx.vcenter(), ctx.stores, key, ctx.operation)
