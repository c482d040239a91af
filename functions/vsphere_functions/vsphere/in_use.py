"""Who holds a disk: every VM whose devices, files or snapshots lead to it, by uuid or by place."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

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


class _Passes(Passes[dict[Ref, Row]]):
    """The passes over everything that volumes are judged by."""


@dataclass(frozen=True, slots=True)
class InUse:
    """What one pass over all VMs found; VM names as people write them.

    `attached` are disks on VMs as they are now; `held` includes templates, files, snapshots and their chains.
    `blind` are VMs that cannot be read at the moment, with the datastores that they lie on (none when unknown).
    """

    surroundings: Surroundings
    attached: dict[str | Spot, list[str]] = field(default_factory=lambda: defaultdict(list))
    held: dict[str | Spot, list[str]] = field(default_factory=lambda: defaultdict(list))
    places: dict[str, str] = field(default_factory=dict)
    blind: list[tuple[str, tuple[Ref, ...]]] = field(default_factory=list)

    @classmethod
    def look(cls, vcenter: VCenter, stores: Stores) -> Self:
        """Read every VM and every snapshot that can be seen, whoever's they are."""
        rows = vcenter.session.kept(_Passes).share(lambda: vcenter.scan(everything(DISKS)))
        found = cls(around(vcenter, stores, rows))
        vms = found.surroundings.vms
        for row in vms.values():
            found._add(row)
        owners = {ref: row for row in vms.values() for ref in _snapshots(row.get("snapshot"))}
        kept = vcenter.read(owners, {"VirtualMachineSnapshot": ("config.hardware.device",)})
        for ref, row in kept.items():
            name = f"{_name(owners[ref])} (in a snapshot)"
            for key in found._keys(owners[ref], row.get("config.hardware.device")):
                found._note(found.held, key, name)
        return found

    def holders(self, uuids: Iterable[str], spots: Iterable[Spot]) -> list[str]:
        """Name the VMs that hold a disk, each once."""
        return _named(self.held, uuids, spots)

    def on(self, uuids: Iterable[str], spots: Iterable[Spot]) -> tuple[str, ...]:
        """Name the VMs that the disk is attached to."""
        return tuple(_named(self.attached, uuids, spots))

    def unread(self, datastores: Iterable[Ref]) -> list[str]:
        """Name the VMs that cannot be read and may hold something on one of the datastores."""
        there = set(datastores)
        return sorted(name for name, on in self.blind if not on or there & set(on))

    def _add(self, row: Row) -> None:
        name = _name(row)
        devices = row.get("config.hardware.device")
        if devices is None:
            self.blind.append((name, tuple(row.get("datastore") or ())))
        where = f"{name} (a template)" if row.get("config.template") else name
        for key in self._keys(row, devices):
            self._note(self.attached, key, name)
            self._note(self.held, key, where)
        for backing in _backings(devices):
            uuid = plain_uuid(backing.get("uuid"))
            if uuid:
                self.places.setdefault(uuid, backing.get("fileName", ""))
        for file in chains(row):
            spot = self.surroundings.spot_of_file(row, file)
            if spot is not None:
                self._note(self.held, spot, where)

    def _keys(self, row: Row, devices: Any) -> Iterator[str | Spot]:
        """Yield what each disk of a VM, and each disk below it in its chain, is known by."""
        for backing in _backings(devices):
            uuid, spot = plain_uuid(backing.get("uuid")), self._spot(row, backing)
            yield from (key for key in (uuid, spot) if key)

    def _spot(self, row: Row, backing: dict[str, Any]) -> Spot | None:
        on = backing.get("datastore")
        within = {**row, "datastore": [on]} if isinstance(on, Ref) else row
        return self.surroundings.spot_of_file(within, backing.get("fileName", ""))

    @staticmethod
    def _note(where: dict[str | Spot, list[str]], key: str | Spot, name: str) -> None:
        if name not in where[key]:
            where[key].append(name)


def _named(where: dict[str | Spot, list[str]], uuids: Iterable[str], spots: Iterable[Spot]) -> list[str]:
    keys: list[str | Spot] = [*filter(None, uuids), *spots]
    return sorted({name for key in keys for name in where.get(key, ())})


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
