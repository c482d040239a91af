"""Where a machine goes: the spec's names resolved once, and looked at live before each clone."""

from dataclasses import dataclass
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.atlas import Atlas
from vsphere_functions.vsphere.disks import KIB_PER_GIB, disks_of
from vsphere_functions.vsphere.privileges import refuse_missing
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted

_WHERE = ("name", "parent")
LIVE = {
    "Datacenter": _WHERE,
    "Folder": _WHERE,
    "ComputeResource": _WHERE,
    "ClusterComputeResource": _WHERE,
    "ResourcePool": _WHERE,
    "HostSystem": (*_WHERE, "runtime.connectionState", "runtime.inMaintenanceMode"),
    "StoragePod": _WHERE,
    "Datastore": (*_WHERE, "summary.accessible", "summary.maintenanceMode"),
    "Network": _WHERE,
    "OpaqueNetwork": _WHERE,
    "DistributedVirtualPortgroup": _WHERE,
    "VirtualMachine": (*_WHERE, "config.hardware.device"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A spec resolved and seen live.

    `storage` is a Datastore or a StoragePod; `devices` are the template's; `atlas` has the network's row.
    """

    folder: Ref
    pool: Ref
    host: Ref | None
    storage: Ref
    network: Ref
    template: Ref
    devices: list[dict[str, Any]]
    atlas: Atlas
    path: str


class _Known(dict[str, Resolved]):
    """What specs were resolved to in a session; each is looked at live before it is used again."""


def find_place(vcenter: VCenter, want: Wanted) -> Place:
    """Resolve the spec's names and look at all of them in one read; nothing is changed.

    InvalidArgument with every violation and what could be meant instead; PermissionDenied with every privilege
    that the account lacks, when a spec is looked at for the first time; Unavailable when a host or datastore is
    out of reach.
    """
    found, rows, wrong = look(vcenter, want)
    if wrong:
        raise problems(tuple(wrong))
    _within_reach(found, rows)
    known, key = vcenter.session.kept(_Known), _key(want.spec)
    if key not in known:
        refuse_missing(vcenter, found)
        known[key] = found
    return _place(found, rows)


def look(vcenter: VCenter, want: Wanted) -> tuple[Resolved, dict[Ref, Row], list[Detail]]:
    """Resolve a spec, from memory when that still holds; what was found, as it is now, and all that is wrong."""
    known, key = vcenter.session.kept(_Known), _key(want.spec)
    found = known.get(key)
    rows = vcenter.read(found.refs, LIVE) if found else {}
    if found is None or not found.stands(rows):
        known.pop(key, None)
        found = Resolved.of(vcenter, want.spec)
        rows = vcenter.read(found.refs, LIVE)
        if found.template in rows:
            found.atlas.remember(found.template, rows[found.template])
    return found, rows, [*found.wrong, *_too_small(found, rows, want.spec), *want.wrong]


def _key(spec: CreateSpec) -> str:
    """Return what of a spec decides about places."""
    names = {
        "datacenter",
        "folder",
        "compute_cluster",
        "resource_pool",
        "host_system",
        "datastore",
        "datastore_cluster",
        "network",
    }
    return spec.model_dump_json(include={*names, "template_vm"})


def _too_small(found: Resolved, rows: dict[Ref, Row], spec: CreateSpec) -> list[Detail]:
    """Name what the template does not allow: a first disk that would have to shrink, or none to size."""
    size = spec.system_disk and spec.system_disk.size
    if not size or found.template is None or found.template not in rows:
        return []
    disks = disks_of(rows[found.template].get("config.hardware.device"))
    if not disks:
        return [Detail("the template has no disk to size", "providerSpec.systemDisk.size")]
    least = -(-disks[0].capacity_kb // KIB_PER_GIB)
    if size * KIB_PER_GIB < disks[0].capacity_kb:
        reason = f"{size} GiB is smaller than the template's disk; at least {least} GiB"
        return [Detail(reason, "providerSpec.systemDisk.size")]
    return []


def _within_reach(found: Resolved, rows: dict[Ref, Row]) -> None:
    for ref in found.refs:
        row, name = rows.get(ref), found.atlas.name(ref)
        if row is None:
            raise CallError(Code.UNAVAILABLE, f"{name} went away while it was looked at; nothing was changed")
        if row.get("summary.accessible") is False or row.get("summary.maintenanceMode", "normal") != "normal":
            raise CallError(Code.UNAVAILABLE, f"datastore {name} is out of reach or in maintenance")
        if row.get("runtime.connectionState", "connected") != "connected":
            raise CallError(Code.UNAVAILABLE, f"host {name} is {row['runtime.connectionState']}")
        if row.get("runtime.inMaintenanceMode"):
            raise CallError(Code.UNAVAILABLE, f"host {name} is in maintenance mode")


def _place(found: Resolved, rows: dict[Ref, Row]) -> Place:
    """Narrow a resolved spec without violations to what the clone takes."""
    needed = (found.folder, found.pool, found.storage, found.network, found.template)
    folder, pool, storage, network, template = (ref for ref in needed if ref is not None)
    return Place(
        folder=folder,
        pool=pool,
        host=found.host,
        storage=storage,
        network=network,
        template=template,
        devices=rows[template].get("config.hardware.device") or [],
        atlas=found.atlas,
        path="/".join(found.atlas.full_path(folder)),
    )
