"""From the names of a provider spec to the objects they mean, with everything that is wrong about them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from vsphere_events.error import Detail
from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec, ProviderSpec
from vsphere_functions.vsphere.atlas import COMPUTES, NETWORKS, Atlas
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.template import find_template, templates_near
from vsphere_functions.vsphere.vcenter import VCenter


@dataclass(slots=True)
class Resolved:
    """What the names of a spec meant when they were looked up; None where `wrong` says why not."""

    atlas: Atlas = field(repr=False)
    datacenter: Ref | None = None
    folder: Ref | None = None
    compute: Ref | None = None
    pool: Ref | None = None
    host: Ref | None = None
    storage: Ref | None = None
    networks: tuple[Ref | None, ...] = ()
    template: Ref | None = None
    wrong: list[Detail] = field(default_factory=list)
    spec: CreateSpec | None = field(default=None, repr=False)

    @classmethod
    def of(cls, vcenter: VCenter, spec: CreateSpec) -> Self:
        """Survey the vCenter and resolve all names of the spec."""
        found = cls(Atlas.survey(vcenter), spec=spec)
        found.datacenter = found.find_datacenter(spec.datacenter)
        if found.datacenter is not None:
            found.fill(vcenter, spec, found.datacenter)
        return found

    @property
    def refs(self) -> list[Ref]:
        """All objects that were found, each once."""
        parts = (self.datacenter, self.folder, self.compute, self.pool, self.host)
        return list({ref for ref in (*parts, self.storage, *self.networks, self.template) if ref})

    def fill(self, vcenter: VCenter, spec: CreateSpec, datacenter: Ref) -> None:
        """Resolve what lies inside the datacenter."""
        self.folder = self.find_folder(datacenter, spec.folder)
        self.host = self.find(datacenter, "hostSystem", "host", ("HostSystem",), spec.host_system)
        self.pool = self.find(
            datacenter, "resourcePool", "resource pool", ("ResourcePool",), spec.resource_pool
        )
        self.compute = self.find(
            datacenter, "computeCluster", "cluster", COMPUTES, spec.compute_cluster
        ) or self.compute_of(self.host or self.pool)
        if self.pool is None and self.compute is not None:
            self.pool = self.atlas.rows[self.compute].get("resourcePool")
        self.storage = self.find_storage(datacenter, spec)
        if self.storage and self.storage.type == "Datastore":
            self.within_reach("datastore", self.storage)
        self.networks = self.find_networks(datacenter, spec)
        self.template, several = find_template(vcenter, self.atlas, datacenter, spec.template_vm)
        if several:
            reason = f'several templates are named "{spec.template_vm}"; give a path or a uuid'
            self.refuse("templateVM", reason, several)
        elif self.template is None:
            near = templates_near(vcenter, self.atlas, datacenter, spec.template_vm)
            self.refuse("templateVM", f"no VM at {spec.template_vm}", near)

    def refuse(self, name: str, reason: str, candidates: Iterable[str] = ()) -> None:
        """Note one violation, with up to 20 names that could be meant instead."""
        self.wrong.append(Detail(reason, f"providerSpec.{name}", tuple(sorted(candidates))[:20]))

    def find_datacenter(self, given: str | None) -> Ref | None:
        """Resolve the datacenter: by inventory path, by name, or the only one."""
        there = self.atlas.of(("Datacenter",))
        if given is None:
            hits, reason = there, "there is not exactly one datacenter; name one"
        else:
            path = _parts(given)
            hits = [ref for ref in there if self.atlas.full_path(ref) == path]
            hits = hits or [ref for ref in there if self.atlas.name(ref) == given]
            reason = f'several datacenters are named "{given}"' if hits else f'no datacenter "{given}"'
        if len(hits) == 1:
            return hits[0]
        self.refuse("datacenter", reason, ["/".join(self.atlas.full_path(ref)) for ref in hits or there])
        return None

    def find_folder(self, datacenter: Ref, given: str | None) -> Ref | None:
        """Resolve a folder by its path below the datacenter's VM folder."""
        top: Ref = self.atlas.rows[datacenter]["vmFolder"]
        if given is None:
            return top
        there = [ref for ref in self.atlas.of(("Folder",), datacenter) if top in self.atlas.lineage(ref)]
        hit = next((ref for ref in there if self.atlas.path(ref) == _parts(given)), None)
        if hit is None:
            where = self.atlas.name(datacenter)
            paths = {"/".join(self.atlas.path(ref)) for ref in there} - {""}
            self.refuse("folder", f'no VM folder "{given}" in datacenter {where}', paths)
        return hit

    def own_folder(self, spec: ProviderSpec) -> Ref | None:
        """Return the folder that a spec names, or None."""
        datacenter = self.find_datacenter(spec.datacenter) if spec.folder else None
        return self.find_folder(datacenter, spec.folder) if datacenter else None

    def find(
        self, datacenter: Ref, name: str, what: str, types: tuple[str, ...], given: str | None
    ) -> Ref | None:
        """Resolve a name or path of the given types inside the datacenter."""
        if given is None:
            return None
        hits, where = self.atlas.named(types, datacenter, given), self.atlas.name(datacenter)
        if len(hits) == 1:
            return hits[0]
        if hits:
            reason = f'several {what}s are named "{given}" in datacenter {where}'
            self.refuse(name, reason, self.told(hits))
        else:
            there = {self.atlas.name(ref) for ref in self.atlas.of(types, datacenter)}
            self.refuse(name, f'no {what} "{given}" in datacenter {where}', there)
        return None

    def compute_of(self, inside: Ref | None) -> Ref | None:
        """Return the compute resource that a host or pool belongs to."""
        return next((ref for ref in self.atlas.lineage(inside) if ref.type in COMPUTES), None)

    def find_storage(self, datacenter: Ref, spec: CreateSpec) -> Ref | None:
        """Resolve the storage pod when one is named, else the datastore."""
        if spec.datastore_cluster:
            pods = ("datastoreCluster", "datastore cluster", ("StoragePod",), spec.datastore_cluster)
            return self.find(datacenter, *pods)
        return self.find(datacenter, "datastore", "datastore", ("Datastore",), spec.datastore)

    def find_networks(self, datacenter: Ref, spec: CreateSpec) -> tuple[Ref | None, ...]:
        """Resolve the network of each card."""
        found = []
        for at, card in enumerate(spec.cards):
            field = f"networks.{at}.name" if spec.networks else "network"
            ref = self.find_network(datacenter, field, card)
            self.within_reach("network", ref, field)
            found.append(ref)
        return tuple(found)

    def find_network(self, datacenter: Ref, field: str, card: Network) -> Ref | None:
        """Resolve a network by name or path, and by the uuid of its switch where one is given."""
        if card.switch_uuid is None:
            return self.find(datacenter, field, "network", NETWORKS, card.name)
        there = self.atlas.called(NETWORKS, datacenter, card.name)
        hits = [ref for ref in there if _plain(self.atlas.switch(ref)) == _plain(card.switch_uuid)]
        if len(hits) == 1:
            return hits[0]
        what = "several networks named" if hits else "no network"
        reason = f'{what} "{card.name}" on a switch {card.switch_uuid}'
        self.refuse(
            field.replace("name", "switchUuid") if "." in field else "switchUuid", reason, self.told(there)
        )
        return None

    def told(self, refs: Iterable[Ref]) -> list[str]:
        """Return the paths of objects; those of port groups with their switches, which tells equal names apart."""
        paths = {ref: "/".join(self.atlas.path(ref)) for ref in refs}
        return [
            f"{path} (switchUuid {switch})" if (switch := self.atlas.switch(ref)) else path
            for ref, path in paths.items()
        ]

    def within_reach(self, name: str, ref: Ref | None, field: str | None = None) -> None:
        """Refuse a datastore or network that the compute resource is not attached to."""
        if ref is None or self.compute is None:
            return
        attached = self.atlas.rows[self.compute].get(name) or []
        if ref not in attached:
            where = self.atlas.name(self.compute)
            there = {self.atlas.name(one) for one in attached if one in self.atlas.rows}
            self.refuse(field or name, f'{name} "{self.atlas.name(ref)}" is not attached to {where}', there)

    def stands(self, rows: dict[Ref, Row]) -> bool:
        """Say whether all objects still have the name and parent they were found by."""
        return all(
            ref in rows and all(rows[ref].get(key) == was.get(key) for key in ("name", "parent"))
            for ref, was in ((ref, self.atlas.rows[ref]) for ref in self.refs)
        )


def _plain(uuid: str | None) -> str | None:
    """Return a uuid without the ways to group its digits."""
    return "".join(char for char in uuid.lower() if char.isalnum()) if uuid else None


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)
