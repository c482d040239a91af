"""Look at one volume.

Promises: changes nothing, and nothing is remembered between two looks. NotFound only when the store was looked into and
has no such volume. One that is not whole is told as degraded, with the reason; one whose disk was moved elsewhere
as moved, with the place. What it is attached to comes from the machines, not from a record.
Source: VolumeGet of VIC's volume support; HostDatastoreBrowser and file access of the vSphere API.
"""

from vsphere_events.volume import GetVolumeRequest, GetVolumeResult
from vsphere_functions.context import Context
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.volumes import describe, find_leaf, not_found


def get_volume(request: GetVolumeRequest, ctx: Context) -> GetVolumeResult:
    """Return the volume as it stands now."""
    key = request.key(ctx.label)
    ctx.stores.named(key.store)
    seen = InUse.look(ctx.vcenter(), ctx.stores)
    leaf = find_leaf(seen.surroundings.store(key.store), key.id)
    if leaf is None or leaf.foreign:
        raise not_found(key, ctx.stores, named=bool(request.store or request.self_link))
    return GetVolumeResult(volume=describe(leaf, seen))
