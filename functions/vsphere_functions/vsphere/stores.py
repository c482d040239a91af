"""Volume stores: from an operator's label to a folder on one datastore of one datacenter."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.volume import VolumeKey
from vsphere_functions.vsphere.atlas import Atlas
from vsphere_functions.vsphere.files import DatastorePath, Files
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.vcenter import VCenter

DEFAULT = "default"
_NAMED = ("name", "parent")
PLACES = {
    "Datacenter": _NAMED,
    "Folder": _NAMED,
    "StoragePod": _NAMED,
    "Datastore": (
        *_NAMED,
        "browser",
        "summary.accessible",
        "summary.freeSpace",
        "summary.maintenanceMode",
        "summary.url",
    ),
}
"""What of the inventory stores are found in."""

Spot = tuple[str, tuple[str, ...]]
"""A place that compares: the datastore's URL and the path on it. One datastore can have several names."""


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """A store as the operator has set it up; sizes in KiB, None for no limit.

    `vcenter` is the label of its vCenter; `folder` is what volumes of this installation lie in.
    """

    name: str
    vcenter: str
    datacenter: str
    folder: DatastorePath
    default_kb: int = 1 << 20
    largest_kb: int | None = None
    total_kb: int | None = None
    volumes: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """A store that was found; `free_kb` is its datastore's free space, `spot` what its folder compares by."""

    config: StoreConfig
    datastore: str
    files: Files = field(repr=False)
    free_kb: int
    spot: Spot

    @property
    def name(self) -> str:
        """The operator's name for it."""
        return self.config.name

    @property
    def folder(self) -> DatastorePath:
        """What its volumes lie in, a folder each."""
        return self.config.folder


@dataclass(frozen=True, slots=True)
class Stores:
    """All stores on the request's vCenter; those of its own label are `own`, and only they can be named.

    The others are there so that two on one place are noticed.
    """

    label: str = ""
    configs: tuple[StoreConfig, ...] = ()

    @property
    def own(self) -> list[StoreConfig]:
        """The stores of the request's vCenter label, by name."""
        mine = [one for one in self.configs if one.vcenter == self.label]
        return sorted(mine, key=lambda one: one.name)

    def named(self, name: str) -> StoreConfig:
        """Return a store by its name; InvalidArgument, naming those there are."""
        for config in self.own:
            if config.name == name:
                return config
        names = tuple(config.name for config in self.own)
        reason = f"no store {name!r} is configured for vCenter {self.label}"
        raise CallError(
            Code.INVALID_ARGUMENT,
            f"{reason}; there are {', '.join(names) or 'none'}",
            details=(Detail(reason, "store", names),),
        )

    def volumes_at(self, path: DatastorePath) -> list[VolumeKey]:
        """Name what volumes a disk is by its path alone; several when datacenters have datastores of one name."""
        return [
            VolumeKey(config.name, volume_id)
            for config in self.configs
            for volume_id in path.parts[-2:-1]
            if path == config.folder / volume_id / f"{volume_id}.vmdk"
        ]

    def cover(self, path: str) -> bool:
        """Say whether a file may lie in a store, whatever its datastore is called."""
        try:
            parts = DatastorePath.parse(path).parts
        except ValueError:
            return False
        return any(parts[: len(one.folder.parts)] == one.folder.parts for one in self.configs)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One look at the datastores of a vCenter and at all its VMs."""

    vcenter: VCenter = field(repr=False)
    stores: Stores
    atlas: Atlas = field(repr=False)
    vms: dict[Ref, Row] = field(repr=False)

    def store(self, name: str) -> Store:
        """Find a store; Unavailable when it is out of reach, FailedPrecondition when its settings are wrong.

        Its folder must not overlap that of another store, nor that of a VM: who removes the VM would remove it.
        """
        config = self.stores.named(name)
        store = self._found(config)
        for other in self.stores.configs:
            if other is not config and (spot := self._spot_of(other)) and overlap(store.spot, spot):
                raise _misconfigured(config, f"it overlaps store {other.name}")
        for row in self.vms.values():
            home = self.spot_of_file(row, row.get("config.files.vmPathName", ""))
            if home is not None and home[1][:-1] and overlap(store.spot, (home[0], home[1][:-1])):
                raise _misconfigured(config, f"it overlaps the folder of the VM {row.get('name', '')!r}")
        return store

    def same_place(self, store: Store) -> list[Ref]:
        """Return the store's datastore by every reference that it goes by: one in each datacenter that has it."""
        return self.same_url(store.spot)

    def same_url(self, spot: Spot) -> list[Ref]:
        """Return every reference of the datastore that a place is on."""
        return [ref for ref in self.atlas.of(("Datastore",)) if self._url(ref) == spot[0]]

    def spot_of_file(self, row: Row, path: str) -> Spot | None:
        """Return where a VM's file is; None when its path or datastore cannot be told."""
        try:
            where = DatastorePath.parse(path)
        except ValueError:
            return None
        refs = [ref for ref in row.get("datastore") or [] if ref in self.atlas.rows]
        for ref in refs or self.datastores(row):
            if self.atlas.name(ref) == where.datastore:
                return self._url(ref), where.parts
        return None

    def spot_of_backing(self, row: Row, backing: Mapping[str, Any]) -> Spot | None:
        """Return where the file behind a VM's disk is."""
        on = backing.get("datastore")
        within = {**row, "datastore": [on]} if isinstance(on, Ref) else row
        return self.spot_of_file(within, backing.get("fileName", ""))

    def datastores(self, row: Row) -> list[Ref]:
        """Return the datastores that a VM can name files on: those of its datacenter."""
        return self.atlas.of(("Datastore",), self.atlas.datacenter(row.get("parent") or Ref("", "")))

    def spot_of(self, datastore: Ref, path: DatastorePath) -> Spot:
        """Return where a path on a datastore is."""
        return self._url(datastore), path.parts

    def store_at(self, spot: Spot) -> StoreConfig | None:
        """Return the store that a place lies in."""
        for config in self.stores.configs:
            folder = self._spot_of(config)
            if folder and folder[0] == spot[0] and spot[1][: len(folder[1])] == folder[1]:
                return config
        return None

    def volume_at(self, spot: Spot) -> VolumeKey | None:
        """Return the volume whose disk is, or would be, at a place."""
        config, tail = self.store_at(spot), spot[1][-2:]
        if config is None or len(spot[1]) != len(config.folder.parts) + 2 or tail[1] != f"{tail[0]}.vmdk":
            return None
        return VolumeKey(config.name, tail[0])

    def files(self, datastore: Ref) -> Files:
        """Return the file access of a datastore."""
        datacenter = self.atlas.datacenter(datastore) or datastore
        center = "/".join(
            str(self.atlas.rows[ref]["name"]) for ref in reversed([*self.atlas.lineage(datacenter)])
        )
        return Files(self.vcenter, datacenter, center, self.atlas.rows[datastore]["browser"])

    def _found(self, config: StoreConfig) -> Store:
        found = Resolved(self.atlas)
        datacenter, datastore = self._refs(config, found)
        if datacenter is None or datastore is None:
            why = found.wrong[0]
            if "several" in why.reason:
                raise _misconfigured(config, f"{why.reason}: {', '.join(why.candidates)}")
            raise CallError(Code.UNAVAILABLE, f"store {config.name} is out of reach: {why.reason}")
        row = self.atlas.rows[datastore]
        if row.get("summary.accessible") is False or row.get("summary.maintenanceMode", "normal") != "normal":
            state = "out of reach" if row.get("summary.accessible") is False else "in maintenance"
            raise CallError(
                Code.UNAVAILABLE, f"store {config.name}: datastore {self.atlas.name(datastore)} is {state}"
            )
        return Store(
            config=config,
            datastore=self.atlas.name(datastore),
            files=self.files(datastore),
            free_kb=int(row.get("summary.freeSpace") or 0) // 1024,
            spot=(self._url(datastore), config.folder.parts),
        )

    def _refs(self, config: StoreConfig, found: Resolved) -> tuple[Ref | None, Ref | None]:
        datacenter = found.find_datacenter(config.datacenter)
        if datacenter is None:
            return None, None
        named = (datacenter, "datastore", "datastore", ("Datastore",), config.folder.datastore)
        return datacenter, found.find(*named)

    def _spot_of(self, config: StoreConfig) -> Spot | None:
        _, datastore = self._refs(config, Resolved(self.atlas))
        return (self._url(datastore), config.folder.parts) if datastore else None

    def _url(self, datastore: Ref) -> str:
        return str(self.atlas.rows[datastore].get("summary.url") or datastore.id).rstrip("/")


def overlap(one: Spot, other: Spot) -> bool:
    """Say whether one place is, or lies in, the other."""
    shared = min(len(one[1]), len(other[1]))
    return one[0] == other[0] and one[1][:shared] == other[1][:shared]


def look_around(vcenter: VCenter, stores: Stores, of_vms: Iterable[str]) -> Surroundings:
    """Read datastores and VMs in one pass, of VMs the given properties."""
    return around(vcenter, stores, vcenter.scan(everything(of_vms)))


def everything(of_vms: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return what `around` wants to have read."""
    return {**PLACES, "VirtualMachine": tuple(of_vms)}


def around(vcenter: VCenter, stores: Stores, rows: Mapping[Ref, Row]) -> Surroundings:
    """Sort what was read."""
    vms = {ref: row for ref, row in rows.items() if ref.type == "VirtualMachine"}
    places = {ref: row for ref, row in rows.items() if ref.type != "VirtualMachine"}
    return Surroundings(vcenter, stores, Atlas(dict(places)), vms)


def _misconfigured(config: StoreConfig, why: str) -> CallError:
    return CallError(Code.FAILED_PRECONDITION, f"the settings of store {config.name} are wrong: {why}")
