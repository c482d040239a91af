"""Who holds a disk: every VM whose devices, files or snapshots lead to it, by uuid or by place."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_functions.vsphere.files import plain_uuid
from vsphere_functions.vsphere.machine import listed
from vsphere_functions.vsphere.names import unescape
from vsphere_functions.vsphere.passes import Passes
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.stores import Spot, Stores, Surroundings, around, everything
from vsphere_functions.vsphere.vcenter import VCenter

WHERE = ("name", "parent", "datastore", "config.files.vmPathName")
"""Of a VM: where it lies."""
DISKS = (
    *WHERE,
    "runtime.connectionState",
    "config.template",
    "config.hardware.device",
    "layoutEx.disk",
    "layoutEx.file",
    "layoutEx.snapshot",
    "snapshot",
)
"""Of a VM: also every disk that it refers to."""


def see_all(vcenter: VCenter) -> None:
    """Refuse to judge by what can be seen when that is not all: PermissionDenied unless the root folder can be."""
    vcenter.read([vcenter.session.content["rootFolder"]], {"Folder": ["name"]})


def held_by(what: str, names: Iterable[str], *, why: str = "", so: str = "nothing was changed") -> CallError:
    """Make the error of a disk that VMs hold, naming them; `why` more is in the way, `so` says what came of it."""
    names = tuple(names)
    return CallError(
        Code.FAILED_PRECONDITION,
        f"{what} is in use by {', '.join(filter(None, (*names, why)))}; {so}",
        details=(Detail("in use by", candidates=names),),
    )


def perhaps_held_by(what: str, name: str, *, so: str = "nothing was changed") -> CallError:
    """Make the error of a disk that a VM may hold which cannot be read."""
    return CallError(
        Code.UNAVAILABLE, f"the VM {name!r} cannot be read at the moment and may hold {what}; {so}"
    )


class _Passes(Passes[dict[Ref, Row]]):
    """The passes over everything that volumes are judged by."""


class Holder(NamedTuple):
    """A VM that refers to a disk, and how it is named to people, with what of it does."""

    vm: Ref
    name: str


class Blind(NamedTuple):
    """A VM that cannot be read at the moment, and the datastores that it lies on (none when unknown).

    `away`: its host or its files are out of reach; otherwise it is being made.
    """

    name: str
    on: tuple[Ref, ...]
    away: bool


_Known: TypeAlias = dict[str | Spot, set[Holder]]


@dataclass(frozen=True, slots=True)
class InUse:
    """What one pass over all VMs found; VM names as people write them.

    `attached` are disks on VMs as they are now; `held` includes templates, files, snapshots and their chains.
    """

    surroundings: Surroundings
    attached: _Known = field(default_factory=lambda: defaultdict(set))
    held: _Known = field(default_factory=lambda: defaultdict(set))
    places: dict[str, str] = field(default_factory=dict)
    blind: list[Blind] = field(default_factory=list)

    @classmethod
    def look(cls, vcenter: VCenter, stores: Stores) -> Self:
        """Read every VM and every snapshot that can be seen, whoever's they are."""
        rows = vcenter.session.kept(_Passes).share(lambda: vcenter.scan(everything(DISKS)))
        found = cls(around(vcenter, stores, rows))
        vms = found.surroundings.vms
        for ref, row in vms.items():
            found._add(Holder(ref, _name(row)), row)
        owners = {
            snapshot: Holder(ref, _name(row))
            for ref, row in vms.items()
            for snapshot in _snapshots(row.get("snapshot"))
        }
        kept = vcenter.read(owners, {"VirtualMachineSnapshot": ("config.hardware.device",)})
        for ref, row in kept.items():
            holder = Holder(owners[ref].vm, f"{owners[ref].name} (in a snapshot)")
            for key in found.keys(vms[holder.vm], row.get("config.hardware.device")):
                found.held[key].add(holder)
        return found

    def holders(self, uuids: Iterable[str], spots: Iterable[Spot], besides: Ref | None = None) -> list[str]:
        """Name the VMs that hold a disk, each once; without the VM `besides`."""
        return _named(self.held, uuids, spots, besides)

    def on(self, uuids: Iterable[str], spots: Iterable[Spot], besides: Ref | None = None) -> tuple[str, ...]:
        """Name the VMs that the disk is attached to; without the VM `besides`."""
        return tuple(_named(self.attached, uuids, spots, besides))

    def unread(self, datastores: Iterable[Ref], *, away: bool = False) -> list[str]:
        """Name the VMs that cannot be read and may hold something on one of the datastores.

        With `away` only those out of reach: one that is being made holds no disk that was there before.
        """
        there = set(datastores)
        blind = (one for one in self.blind if one.away or not away)
        return sorted(one.name for one in blind if not one.on or there & set(one.on))

    def keys(self, row: Row, devices: Any) -> Iterator[str | Spot]:
        """Yield what each disk of a VM, and each disk below it in its chain, is known by."""
        for backing in _backings(devices):
            uuid, spot = plain_uuid(backing.get("uuid")), self.surroundings.spot_of_backing(row, backing)
            yield from (key for key in (uuid, spot) if key)

    def shows(self, row: Row, device: Any, uuids: Iterable[str], spots: Collection[Spot]) -> bool:
        """Say whether a VM's disk is the one that is known by these, and may be handled as such.

        A uuid alone does not make it so where another volume's disk lies: metadata and disks get copied by hand.
        """
        keys = set(self.keys(row, [device]))
        if keys & {*spots}:
            return True
        places = (self.surroundings.volume_at(key) for key in keys if isinstance(key, tuple))
        return bool(keys & {*filter(None, uuids)}) and not any(places)

    def _add(self, holder: Holder, row: Row) -> None:
        devices = row.get("config.hardware.device")
        if devices is None:
            away = row.get("runtime.connectionState", "connected") != "connected"
            self.blind.append(Blind(holder.name, tuple(row.get("datastore") or ()), away))
        where = holder._replace(name=f"{holder.name} (a template)") if row.get("config.template") else holder
        for key in self.keys(row, devices):
            self.attached[key].add(holder)
            self.held[key].add(where)
        for backing in _backings(devices):
            uuid = plain_uuid(backing.get("uuid"))
            if uuid:
                self.places.setdefault(uuid, backing.get("fileName", ""))
        for file in chains(row):
            spot = self.surroundings.spot_of_file(row, file)
            if spot is not None:
                self.held[spot].add(where)


def _named(known: _Known, uuids: Iterable[str], spots: Iterable[Spot], besides: Ref | None) -> list[str]:
    keys: list[str | Spot] = [*filter(None, uuids), *spots]
    return sorted({one.name for key in keys for one in known.get(key, ()) if one.vm != besides})


def _name(row: Row) -> str:
    return unescape(row.get("name", ""))


def _backings(devices: Any) -> Iterator[dict[str, Any]]:
    """Yield the backing of each virtual disk and, below it, those of its parents."""
    for device in devices or []:
        backing = device.get("backing") if device.get("_type") == "VirtualDisk" else None
        while isinstance(backing, dict):
            yield backing
            backing = backing.get("parent")


def chains(row: Row) -> Iterator[str]:
    """Yield the files of the chains of a VM's disks and of its snapshots' (layoutEx.file keeps those of the past)."""
    names = {file.get("key"): file.get("name", "") for file in listed(row.get("layoutEx.file"))}
    layouts = listed(row.get("layoutEx.disk"))
    for snapshot in listed(row.get("layoutEx.snapshot")):
        layouts = [*layouts, *listed(snapshot.get("disk"))]
    keys = {
        key
        for layout in layouts
        for link in listed(layout.get("chain"))
        for key in listed(link.get("fileKey"))
    }
    yield from (names[key] for key in keys & names.keys())


def _snapshots(info: Any) -> Iterator[Ref]:
    """Yield every snapshot of a VM's tree."""
    waiting = listed(info.get("rootSnapshotList")) if isinstance(info, dict) else []
    while waiting:
        node = waiting.pop()
        yield node["snapshot"]
        waiting += listed(node.get("childSnapshotList"))
