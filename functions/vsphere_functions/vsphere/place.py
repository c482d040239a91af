"""Where a machine goes: the spec's names resolved once, and looked at live before each clone."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.atlas import Atlas
from vsphere_functions.vsphere.customization import customization_wrong, stored_customization
from vsphere_functions.vsphere.fit import fit
from vsphere_functions.vsphere.machine_volumes import VolumesFound, look_for_volumes
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
    "VirtualMachine": (
        *_WHERE,
        "config.hardware.device",
        "config.hardware.numCPU",
        "config.hardware.memoryMB",
        "config.vAppConfig.property",
        "config.template",
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """A spec resolved and seen live.

    `storage` is a Datastore or a StoragePod; `networks` are the cards'; `devices` are the template's; `atlas` has
    the networks' rows; `customization` is the spec that vCenter keeps under the name that was given; `volumes`
    are the uuids of the disks of the spec's volumes.
    """

    folder: Ref
    pool: Ref
    host: Ref | None
    storage: Ref
    networks: tuple[Ref, ...]
    template: Ref
    devices: list[dict[str, Any]]
    atlas: Atlas
    path: str
    customization: Any = None
    volumes: tuple[str, ...] = ()


class Look(NamedTuple):
    """A spec resolved, with the rows of what was found, all that is wrong with it, and its volumes."""

    found: Resolved
    rows: dict[Ref, Row]
    wrong: list[Detail]
    volumes: VolumesFound


class _Known(dict[str, Resolved]):
    """What specs were resolved to in a session; each is looked at live before it is used again."""


def find_place(vcenter: VCenter, want: Wanted) -> Place:
    """Resolve the spec's names and look at all of them in one read; nothing is changed.

    InvalidArgument with every violation and what could be meant instead; FailedPrecondition for a volume that is in
    use; PermissionDenied with every privilege that the account lacks, when a spec is looked at for the first time;
    Unavailable when a host or datastore is out of reach.
    """
    found, rows, wrong, volumes = look(vcenter, want)
    if wrong or volumes.wrong:
        raise problems((*wrong, *volumes.wrong))
    _within_reach(found, rows)
    for refused in volumes.refused:
        raise refused
    known, key = vcenter.session.kept(_Known), _key(want.spec)
    if key not in known:
        refuse_missing(vcenter, found)
        known[key] = found
    place = _place(found, rows, stored_customization(vcenter, want.spec))
    return replace(place, volumes=tuple(volumes.uuids))


def look(vcenter: VCenter, want: Wanted) -> Look:
    """Resolve a spec, from memory when that still holds, and look for its volumes."""
    known, key = vcenter.session.kept(_Known), _key(want.spec)
    found = known.get(key)
    rows = vcenter.read(found.refs, LIVE) if found else {}
    if found is None or not found.stands(rows):
        known.pop(key, None)
        found = Resolved.of(vcenter, want.spec)
        rows = vcenter.read(found.refs, LIVE)
        if found.template in rows:
            found.atlas.remember(found.template, rows[found.template])
    misfits = fit(want.spec, rows[found.template]) if found.template in rows else []
    wrong = [*found.wrong, *misfits, *customization_wrong(vcenter, want.spec), *want.wrong]
    return Look(found, rows, wrong, look_for_volumes(vcenter, want, found))


def _key(spec: CreateSpec) -> str:
    """Return what of a spec decides about places, and about the privileges that it takes there."""
    names = {
        "datacenter",
        "folder",
        "compute_cluster",
        "resource_pool",
        "host_system",
        "datastore",
        "datastore_cluster",
        "network",
        "networks",
        "switch_uuid",
        "template_vm",
        "customization",
        "cpu_allocation",
        "memory_allocation",
        "memory_reservation_locked_to_max",
    }
    return f"{spec.model_dump_json(include=names)} {spec.vapp is not None} {bool(spec.volumes)}"


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


def _place(found: Resolved, rows: dict[Ref, Row], customization: Any) -> Place:
    """Narrow a resolved spec without violations to what the clone takes."""
    needed = (found.folder, found.pool, found.storage, found.template)
    folder, pool, storage, template = (ref for ref in needed if ref is not None)
    return Place(
        folder=folder,
        pool=pool,
        host=found.host,
        storage=storage,
        networks=tuple(ref for ref in found.networks if ref is not None),
        template=template,
        devices=rows[template].get("config.hardware.device") or [],
        atlas=found.atlas,
        path="/".join(found.atlas.full_path(folder)),
        customization=customization,
    )
