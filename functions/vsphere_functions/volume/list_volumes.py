"""List the volumes of one store, or of all stores of the vCenter.

Promises: changes nothing. One browse for each store, and one read for each volume on the page. What is half made,
damaged or moved is listed as degraded, with the reason, and breaks nothing; folders that are no volume's are left
out. A store that is out of reach is named beside the others; when only it was asked for, its error is the answer.
`audit` looks closer: at files that belong to no volume, disks without extents, creates that never ended. A page is
a slice, by store and id, of a fresh whole pass.
Source: VolumesList of VIC's volume support; HostDatastoreBrowser and file access of the vSphere API.
"""

from vsphere_events.error import Detail
from vsphere_events.model import problems
from vsphere_events.volume import ListVolumesRequest, ListVolumesResult, VolumeState, store_name
from vsphere_functions.context import Context
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.stores import StoreConfig
from vsphere_functions.vsphere.volumes_list import audited, look_through, read_all


def list_volumes(request: ListVolumesRequest, ctx: Context) -> ListVolumesResult:
    """Return a page of the volumes."""
    configs = [ctx.stores.named(store_name(ctx.label, request.store))] if request.store else ctx.stores.own
    after = _after(request.page_token, configs)
    seen = InUse.look(ctx.vcenter(), ctx.stores)
    found = look_through(seen, configs, only=bool(request.store))
    shown = {key: leaf for key, leaf in found.leaves.items() if request.audit or not leaf.foreign}
    keys = sorted(key for key in shown if key > after)
    page = [shown[key] for key in keys[: request.page_size]]
    volumes = read_all(page, seen)
    if request.audit:
        now = ctx.clock()
        volumes = [audited(leaf, volume, now) for leaf, volume in zip(page, volumes, strict=True)]
    strays = found.strays if request.audit and not request.page_token else []
    return ListVolumesResult(
        volumes=tuple(one for one in volumes if one.state is VolumeState.READY),
        degraded=(*(one for one in volumes if one.state is not VolumeState.READY), *strays),
        unreachable_stores=tuple(found.unreachable),
        next_page_token="/".join(keys[len(page) - 1]) if len(keys) > len(page) else None,
    )


def _after(token: str | None, configs: list[StoreConfig]) -> tuple[str, str]:
    """Return the key that a page begins after; InvalidArgument for a token that no page of these stores gave."""
    if token is None:
        return "", ""
    store, cut, name = token.partition("/")
    if not cut or not name or "/" in name or store not in {one.name for one in configs}:
        raise problems((Detail("is no token of this list", "pageToken"),))
    return store, name
