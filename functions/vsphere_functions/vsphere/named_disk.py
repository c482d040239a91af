"""A disk that a request names, by volume or by path: found, and judged whether a machine can have it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, Self

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_events.volume import Volume, VolumeKey
from vsphere_functions.vsphere.disks import DELTA, Disk, disks_of
from vsphere_functions.vsphere.files import DatastorePath, Files
from vsphere_functions.vsphere.in_use import InUse, held_by
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.stores import DEFAULT, Spot
from vsphere_functions.vsphere.volumes import Leaf, describe, find_leaf, judge, not_found


class GivenDisk(Protocol):
    """What of a request names a disk; exactly one of id, self_link and vmdk_path is there."""

    @property
    def id(self) -> str | None:
        """A volume's id."""

    @property
    def store(self) -> str | None:
        """Its store."""

    @property
    def self_link(self) -> str | None:
        """A volume's link."""

    @property
    def vmdk_path(self) -> str | None:
        """A disk's place."""

    @property
    def read_only(self) -> bool:
        """Whether nothing may be written to it."""


@dataclass(frozen=True, slots=True)
class DiskName:
    """A volume's key, or a path as the machine's datacenter spells it.

    `field` says where it stood in the request; `vague`: which store it is in was not said.
    """

    key: VolumeKey | None
    path: DatastorePath | None
    read_only: bool
    field: str
    vague: bool = False

    @classmethod
    def of(cls, given: GivenDisk, label: str, field: str = "") -> Self:
        """Read a request; InvalidArgument for another vCenter's link."""
        key, path = None, None
        if given.vmdk_path:
            field += "vmdkPath"
            path = DatastorePath.parse(given.vmdk_path)
        else:
            key = _key(given, label, field)
            field += "selfLink" if given.self_link else "id"
        return cls(key, path, given.read_only, field, vague=not given.store)

    def __str__(self) -> str:
        return f"volume {self.key.id!r}" if self.key else f"the disk {self.path}"

    @property
    def mode(self) -> str:
        """How it is attached: snapshots leave it alone, and what is written to a read-only one is not kept."""
        return "independent_nonpersistent" if self.read_only else "independent_persistent"


def _key(given: GivenDisk, label: str, field: str) -> VolumeKey:
    try:
        if given.self_link:
            return VolumeKey.of_link(label, given.self_link)
        return VolumeKey.of(label, given.store or DEFAULT, given.id or "")
    except CallError as error:
        field += "selfLink" if given.self_link else "store"
        raise problems((Detail(error.message, field),)) from None


@dataclass(frozen=True, slots=True)
class NamedDisk:
    """A disk that was looked for, there or not.

    `path` is what the machine's datacenter calls it, and `datastore` what that leads to; `datastores` are all
    references of the same one; `uuids` are those that were written down. `leaf` is its folder when it is a
    volume; else `beside` are the files beside it whose names begin alike.
    """

    name: DiskName
    path: DatastorePath
    spots: tuple[Spot, ...]
    datastore: Ref
    datastores: tuple[Ref, ...]
    files: Files = field(repr=False)
    uuids: tuple[str, ...] = ()
    leaf: Leaf | None = None
    beside: tuple[str, ...] = ()

    def on(self, seen: InUse, machine: Machine) -> list[Disk]:
        """Return the machine's disks that are this one, or stand on it."""
        disks = disks_of(machine.row.get("config.hardware.device"))
        return [disk for disk in disks if seen.shows(machine.row, disk.device, self.uuids, self.spots)]

    @property
    def is_there(self) -> bool:
        """Whether a volume has a folder, or a disk that is none its file."""
        if self.leaf is not None:
            return not self.leaf.foreign and bool(self.leaf.files or self.leaf.vic)
        return self.path.parts[-1] in self.beside

    @property
    def deltas(self) -> list[str]:
        """The files of a snapshot of it."""
        if self.leaf is not None:
            return self.leaf.deltas
        stem = self.path.parts[-1].removesuffix(".vmdk")
        return [one for one in self.beside if DELTA.fullmatch(one.removeprefix(stem))]

    def uuid(self) -> str:
        """Ask the disk for its uuid, which shows that it can be opened."""
        return self.files.disk_uuid(self.leaf.disk if self.leaf is not None else self.path)

    def described(self, seen: InUse, disks: Iterable[Disk], holders: Iterable[str]) -> Volume:
        """Tell what it is, with the VMs that have it now; `disks` are the devices that show it."""
        if self.leaf is not None:
            return describe(self.leaf, seen).model_copy(update={"attached_to": tuple(holders)})
        return Volume(
            tag=self.path.parts[-1].removesuffix(".vmdk"),
            datastore=self.path.datastore,
            vmdk_path=str(self.path),
            capacity_kb=next((disk.capacity_kb for disk in disks), None),
            attached_to=tuple(holders),
        )


def find_disk(seen: InUse, row: Row, name: DiskName) -> NamedDisk:
    """Look for a disk as a VM with this row, or one to be made at its `parent`, would name it.

    InvalidArgument when the VM's datacenter has no such datastore, and for a path that is a volume's and was not
    known to be; Unavailable when the store is out of reach.
    """
    if name.key is not None:
        return _volume(seen, row, name, name.key)
    around, path = seen.surroundings, name.path or DatastorePath("", ())
    ref = next((one for one in around.datastores(row) if around.atlas.name(one) == path.datastore), None)
    if ref is None:
        names = tuple(sorted({around.atlas.name(one) for one in around.datastores(row)}))
        raise problems((Detail(f'no datastore "{path.datastore}" where the machine is', name.field, names),))
    spot = around.spot_of(ref, path)
    if around.store_at(spot) is not None:
        return _volume(seen, row, name, _key_of_path(seen, name, path, spot))
    files, stem = around.files(ref), path.parts[-1].removesuffix(".vmdk")
    beside = files.names(path._replace(parts=path.parts[:-1]), f"{stem}*.vmdk")
    datastores = tuple(around.same_url(spot))
    return NamedDisk(name, path, (spot,), ref, datastores, files, beside=tuple(beside))


def _key_of_path(seen: InUse, name: DiskName, path: DatastorePath, spot: Spot) -> VolumeKey:
    """Name the volume of a path in a store; the request holds only those that the path's spelling tells of."""
    stores, key = seen.surroundings.stores, seen.surroundings.volume_at(spot)
    config = seen.surroundings.store_at(spot)
    if key is None or config is None:
        raise problems((Detail("it lies in a volume store and is no volume's disk", name.field),))
    if config.vcenter != stores.label or key not in stores.volumes_at(path):
        reason = f"it is a volume; name it by its selfLink, {key.link(config.vcenter)}"
        raise problems((Detail(reason, name.field),))
    return key


def _volume(seen: InUse, row: Row, name: DiskName, key: VolumeKey) -> NamedDisk:
    around = seen.surroundings
    store = around.store(key.store)
    leaf = find_leaf(store, key.id) or Leaf(store, key.id)
    datastores = tuple(around.same_place(store))
    here = next((ref for ref in around.datastores(row) if ref in datastores), None)
    if here is None:
        reason = f"the datastore of store {key.store}, {store.datastore}, is not there where the machine is"
        raise problems((Detail(reason, name.field),))
    path = leaf.disk._replace(datastore=around.atlas.name(here))
    return NamedDisk(name, path, leaf.spots, here, datastores, store.files, _written(leaf), leaf)


def _written(leaf: Leaf) -> tuple[str, ...]:
    try:
        told = leaf.metadata()
    except ValueError:
        return ()
    return (told.uuid,) if told and told.uuid else ()


def refuse_missing(seen: InUse, disk: NamedDisk) -> None:
    """Refuse a disk that is not there: NotFound."""
    if disk.is_there:
        return
    key, reason = disk.name.key, f"there is no disk {disk.path}"
    if key is not None:
        reason = not_found(key, seen.surroundings.stores, named=not disk.name.vague).message
    raise CallError(Code.NOT_FOUND, reason, details=(Detail(reason, disk.name.field),))


def admit(seen: InUse, disk: NamedDisk, machine: Ref | None = None) -> str:
    """Return the uuid of a disk that a machine can have, one to be made when None is given.

    NotFound when it is not there; FailedPrecondition, with the reason or the holders, when it is not whole or another
    VM has it; Unavailable when a VM that is out of reach may have it.
    """
    _refuse_held(seen, disk, machine, disk.uuids)
    refuse_missing(seen, disk)
    if disk.leaf is not None:
        _, reason, moved = judge(disk.leaf, seen)
        if reason:
            raise _unfit(f"{disk.name} is not fit: {reason}" + (f", to {moved}" if moved else ""))
    if disk.deltas:
        raise _unfit(f"{disk.name} has a snapshot ({disk.deltas[0]})")
    uuid = disk.uuid()
    _refuse_held(seen, disk, machine, [uuid])
    unread = seen.unread(disk.datastores, away=True)
    if unread:
        message = f"the VM {unread[0]!r} is out of reach and may hold {disk.name}; nothing was changed"
        raise CallError(Code.UNAVAILABLE, message)
    return uuid


def _refuse_held(seen: InUse, disk: NamedDisk, machine: Ref | None, uuids: Iterable[str]) -> None:
    held = seen.holders(uuids, disk.spots, besides=machine)
    if held:
        raise held_by(str(disk.name), held)


def _unfit(why: str) -> CallError:
    return CallError(Code.FAILED_PRECONDITION, f"{why}; nothing was changed")
