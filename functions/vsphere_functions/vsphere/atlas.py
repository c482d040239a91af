"""The places of a vCenter: everything that a machine can be put into, by path and by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self

from vsphere_functions.vsphere.names import unescape
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.vcenter import VCenter

_NAMED = ("name", "parent")
_COMPUTE = (*_NAMED, "resourcePool", "datastore", "network")
PLACES: Mapping[str, tuple[str, ...]] = {
    "Datacenter": (*_NAMED, "vmFolder"),
    "Folder": _NAMED,
    "ComputeResource": _COMPUTE,
    "ClusterComputeResource": _COMPUTE,
    "ResourcePool": (*_NAMED, "owner"),
    "HostSystem": _NAMED,
    "Datastore": _NAMED,
    "StoragePod": _NAMED,
    "Network": _NAMED,
    "OpaqueNetwork": (*_NAMED, "summary.opaqueNetworkId", "summary.opaqueNetworkType"),
    "DistributedVirtualPortgroup": (*_NAMED, "key", "config.distributedVirtualSwitch", "config.uplink"),
    "DistributedVirtualSwitch": (*_NAMED, "uuid"),
    "VmwareDistributedVirtualSwitch": (*_NAMED, "uuid"),
}
COMPUTES = ("ClusterComputeResource", "ComputeResource")
NETWORKS = ("DistributedVirtualPortgroup", "Network", "OpaqueNetwork")


@dataclass(frozen=True, slots=True)
class Atlas:
    """What one scan found; paths are those people write, below the datacenter's folder of the kind."""

    rows: dict[Ref, Mapping[str, Any]]

    @classmethod
    def survey(cls, vcenter: VCenter) -> Self:
        """Scan the vCenter's places (no VMs) in one pass."""
        return cls(dict(vcenter.scan(PLACES)))

    def remember(self, ref: Ref, row: Mapping[str, Any]) -> None:
        """Add an object that the scan left out, such as a template."""
        kept = {name: row[name] for name in ("config.template",) if name in row}
        self.rows[ref] = {"name": row.get("name", ""), "parent": row.get("parent"), **kept}

    def name(self, ref: Ref) -> str:
        """Return the object's name as people write it."""
        return unescape(self.rows[ref]["name"])

    def lineage(self, ref: Ref | None) -> Iterator[Ref]:
        """Yield the object, its parent, and so on up to what the scan did not see (the root)."""
        while ref in self.rows:
            yield ref
            ref = self.rows[ref].get("parent")

    def datacenter(self, ref: Ref) -> Ref | None:
        """Return the datacenter that the object lies in."""
        return next((one for one in self.lineage(ref) if one.type == "Datacenter"), None)

    def path(self, ref: Ref) -> tuple[str, ...]:
        """Return the names from below the datacenter's top folder down to the object."""
        inside = list(takewhile(lambda one: one.type != "Datacenter", self.lineage(ref)))
        return tuple(reversed([self.name(one) for one in inside[:-1]]))

    def full_path(self, ref: Ref) -> tuple[str, ...]:
        """Return the names from below the root folder down to the object."""
        return tuple(reversed([self.name(one) for one in self.lineage(ref)]))

    def of(self, types: tuple[str, ...], datacenter: Ref | None = None) -> list[Ref]:
        """Return all objects of the types, those of one datacenter when it is given."""
        return [
            ref
            for ref in self.rows
            if ref.type in types
            and (datacenter is None or self.datacenter(ref) == datacenter)
            and not self.rows[ref].get("config.uplink")  # a switch's own port group takes no VM
        ]

    def called(self, types: tuple[str, ...], datacenter: Ref, given: str) -> list[Ref]:
        """Return what has a name, or lies at a path below the datacenter's top folder."""
        wanted = tuple(part for part in given.split("/") if part)
        there = self.of(types, datacenter)
        return [ref for ref in there if self.path(ref) == wanted or self.name(ref) == given]

    def named(self, types: tuple[str, ...], datacenter: Ref, given: str) -> list[Ref]:
        """Return what a name or a path below the datacenter's top folder can mean; a path decides."""
        wanted = tuple(part for part in given.split("/") if part)
        hits = self.called(types, datacenter, given)
        return [ref for ref in hits if self.path(ref) == wanted] or hits

    def switch(self, ref: Ref) -> str | None:
        """Return the uuid of the distributed switch that a port group belongs to."""
        switch = self.rows[ref].get("config.distributedVirtualSwitch")
        uuid = self.rows.get(switch, {}).get("uuid") if switch else None
        return str(uuid) if uuid else None
