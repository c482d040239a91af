"""A volume's folder in its store: what lies there, what that means, and the volume that it makes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import Volume, VolumeKey, VolumeState
from vsphere_functions.vsphere import claims_file, metadata
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.disks import DELTA
from vsphere_functions.vsphere.files import DatastorePath
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.metadata import VIC_FOLDER, Metadata
from vsphere_functions.vsphere.stores import Spot, Store, Stores

DOOMED = "_doomed.vmdk"
"""What a disk is called while it is being destroyed; no id begins with an underscore."""
COPYING = "_copying.vmdk"
"""What a disk is called while it is being copied to its place."""
_OURS = re.compile(r"_[0-9a-f]{32}\.json|_(doomed|copying)(-flat|-ctk)?\.vmdk", re.ASCII)


@dataclass(frozen=True)
class Leaf:
    """A volume's folder as one browse found it.

    `files` maps names to sizes in bytes, and so does `vic` the keys of VIC's metadata, None where there is none;
    `below` are other folders in it.
    """

    store: Store = field(repr=False)
    id: str
    files: Mapping[str, int] = field(default_factory=dict)
    vic: Mapping[str, int] | None = None
    below: tuple[str, ...] = ()

    @property
    def path(self) -> DatastorePath:
        """The folder."""
        return self.store.folder / self.id

    @property
    def disk(self) -> DatastorePath:
        """The disk, whether it is there or not."""
        return self.path / f"{self.id}.vmdk"

    @property
    def doomed(self) -> DatastorePath:
        """The disk under the name that it is destroyed by."""
        return self.path / DOOMED

    @property
    def copying(self) -> DatastorePath:
        """The disk while it is being copied here."""
        return self.path / COPYING

    @property
    def spots(self) -> tuple[Spot, ...]:
        """Where a VM may think that the disk is."""
        url, parts = self.store.spot
        return tuple((url, (*parts, self.id, name)) for name in (f"{self.id}.vmdk", DOOMED, COPYING))

    @property
    def has_disk(self) -> bool:
        """Whether the disk is there."""
        return f"{self.id}.vmdk" in self.files

    @property
    def has_doomed(self) -> bool:
        """Whether a destroy has begun and not ended."""
        return DOOMED in self.files

    @property
    def has_copying(self) -> bool:
        """Whether a copy to here has begun and not ended."""
        return COPYING in self.files

    @property
    def has_metadata(self) -> bool:
        """Whether our metadata is there: then the volume was whole once."""
        return metadata.FILE in self.files

    @property
    def has_claim(self) -> bool:
        """Whether somebody has begun to make it."""
        return claims_file.FILE in self.files

    @property
    def bare(self) -> bool:
        """Whether nothing lies here but what interrupted writes have left."""
        return self.vic is None and not self.below and self.files.keys() == set(self.temporaries)

    @property
    def deltas(self) -> list[str]:
        """The files of a snapshot of the disk."""
        return sorted(name for name in self.files if DELTA.search(name))

    @cached_property
    def known(self) -> list[str]:
        """The files that belong to a volume here; metadata, then the claim, last."""
        own = {f"{self.id}{tail}.vmdk" for tail in ("", "-flat", "-ctk")}
        last = [name for name in (metadata.FILE, claims_file.FILE) if name in self.files]
        return [name for name in sorted(self.files) if name in own or _OURS.fullmatch(name)] + last

    @property
    def temporaries(self) -> list[str]:
        """The files that interrupted tries have left here before they were put in their places."""
        return sorted(name for name in self.files if _OURS.fullmatch(name) and name.endswith(".json"))

    @property
    def unknown(self) -> list[str]:
        """What else lies here."""
        return sorted((self.files.keys() - set(self.known)) | set(self.below))

    @property
    def foreign(self) -> bool:
        """Whether there is something here and nothing of it is a volume's."""
        return bool(self.unknown) and not self.known and self.vic is None

    def metadata(self) -> Metadata | None:
        """Read what is written down; None where nothing is, ValueError when it says nothing that can be used."""
        if self.has_metadata:
            body = self.read(metadata.FILE)
            return None if body is None else Metadata.parse(body)
        if self.vic is not None:
            files, where = self.store.files, self.path / VIC_FOLDER
            _refuse_large(sum(self.vic.values()))
            return Metadata.of_vic({key: files.read(where / key) or b"" for key in self.vic})
        return None

    def claim(self) -> Claim | None:
        """Read who makes it; None for nobody, and for a claim that nobody can read."""
        try:
            body = self.read(claims_file.FILE) if self.has_claim else None
        except ValueError:
            return None
        return Claim.parse(body) if body else None

    def read(self, name: str) -> bytes | None:
        """Read a file that was written by us, None when it is gone; ValueError for one that is too large for that."""
        _refuse_large(self.files.get(name, 0))
        return self.store.files.read(self.path / name)


def _refuse_large(size: int) -> None:
    """Read no disk that has the name of a metadata file into memory."""
    if size > metadata.LARGEST:
        raise ValueError("its metadata is too large to be any")


def browse(store: Store, volume_id: str | None = None) -> tuple[dict[str, Leaf], tuple[str, ...]]:
    """Find the folders of a store, or of one volume, and the stray files beside them."""
    where = store.folder if volume_id is None else store.folder / volume_id
    depth, strays = len(store.folder.parts), tuple[str, ...]()
    found: dict[str, Leaf] = {}
    for folder in sorted(store.files.browse(where), key=lambda one: one.path):
        match folder.path.parts[depth:]:
            case ():
                strays = tuple(sorted(folder.files))
            case (name,):
                found[name] = Leaf(store, name, folder.files)
            case (name, "imageMetadata"):
                leaf = found.get(name) or Leaf(store, name)
                found[name] = Leaf(store, name, leaf.files, folder.files, leaf.below)
            case (name, *rest):
                leaf = found.get(name) or Leaf(store, name)
                found[name] = Leaf(store, name, leaf.files, leaf.vic, (*leaf.below, "/".join(rest)))
    return found, strays


def find_leaf(store: Store, volume_id: str) -> Leaf | None:
    """Find the folder of one volume; None when there is none."""
    return browse(store, volume_id)[0].get(volume_id)


def describe(leaf: Leaf, seen: InUse) -> Volume:
    """Tell what stands in a folder; what is not whole is degraded, with the reason, or has moved."""
    told, reason, moved = judge(leaf, seen)
    attached = seen.on([told.uuid] if told else [], leaf.spots)
    return volume_of(leaf, told, attached, reason=reason, moved=moved)


def judge(leaf: Leaf, seen: InUse) -> tuple[Metadata | None, str | None, str | None]:
    """Return a volume's metadata, the reason why it is not whole, and where its disk has moved."""
    try:
        told = leaf.metadata()
    except ValueError as odd:
        return None, str(odd), None
    if leaf.has_disk and told is not None:
        return told, None, None
    moved = moved_to(leaf, told, seen)
    return told, "its disk was moved elsewhere" if moved else _unfinished(leaf, told), moved


def moved_to(leaf: Leaf, told: Metadata | None, seen: InUse) -> str | None:
    """Say where the disk of a volume is attached that is not in its place any more."""
    if leaf.has_disk or leaf.has_doomed or told is None or not told.uuid:
        return None
    return seen.places.get(told.uuid)


def _unfinished(leaf: Leaf, told: Metadata | None) -> str:
    if leaf.has_doomed:
        return "its destroy has begun and not ended; destroy it again"
    if told is not None:
        return "its disk is not there; destroy removes what is left"
    if leaf.has_claim:
        return "it is being made, or its create was interrupted; the next one finishes it"
    what = "a disk without metadata" if leaf.has_disk else "a folder without a disk and without metadata"
    return f"{what}; a create finishes it, destroy removes it"


def volume_of(
    leaf: Leaf,
    told: Metadata | None,
    attached: Iterable[str] = (),
    *,
    reason: str | None = None,
    moved: str | None = None,
) -> Volume:
    """Make the volume that an answer shows."""
    state = VolumeState.MOVED if moved else VolumeState.DEGRADED if reason else VolumeState.READY
    return Volume(
        tag=leaf.id,
        datastore=leaf.store.datastore,
        vmdk_path=str(leaf.disk),
        capacity_kb=told.capacity_kb if told else None,
        info=dict(told.info) if told else {},
        self_link=VolumeKey(leaf.store.name, leaf.id).link(leaf.store.config.vcenter),
        attached_to=tuple(attached),
        state=state,
        reason=reason,
        moved_to=moved,
    )


def not_found(key: VolumeKey, stores: Stores, *, named: bool) -> CallError:
    """Say that there is no such volume, and where else it could have been meant to be."""
    others = [one.name for one in stores.own if one.name != key.store]
    hint = f"; no store was named, and there are also {', '.join(others)}" if others and not named else ""
    return CallError(Code.NOT_FOUND, f"there is no volume {key.id!r} in store {key.store}{hint}")
