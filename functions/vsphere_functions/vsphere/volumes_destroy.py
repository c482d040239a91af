"""The end of a volume: nothing of it is deleted before it is shown that nobody holds its disk."""

from dataclasses import replace

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.files import DatastorePath
from vsphere_functions.vsphere.in_use import InUse, held_by, perhaps_held_by
from vsphere_functions.vsphere.metadata import VIC_FOLDER, Metadata
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Stores
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import Leaf, find_leaf, moved_to

_NO_UUID = {Code.NOT_FOUND, Code.FAILED_PRECONDITION, Code.UNKNOWN}
"""How a disk answers that is no disk any more: its descriptor is broken or has lost its extents."""


_KEPT = "nothing was deleted"


def destroy(vcenter: VCenter, stores: Stores, leaf: Leaf, seen: InUse, state: State) -> Steps[None]:
    """Destroy what stands in a volume's folder, whole or not, and the folder when nothing else is in it.

    FailedPrecondition, with nothing deleted, when a VM, a template or a snapshot holds the disk, or when it was
    moved elsewhere; Unavailable when a VM that may hold it cannot be read.
    """
    told = _told(leaf)
    refuse_held(leaf, told, seen)
    moved = moved_to(leaf, told, seen)
    if moved:
        raise CallError(
            Code.FAILED_PRECONDITION,
            f"the disk of volume {leaf.id!r} was moved to {moved} and is in use there; {_KEPT}",
        )
    yield from remove_disk(vcenter, stores, leaf, state)
    yield from remove_files(leaf, state)
    yield Step("destroy", str(state.at("destroy")), f"volume {leaf.id} is gone", 100)


def refuse_held(leaf: Leaf, told: Metadata | None, seen: InUse) -> None:
    """Refuse while anything refers to the disk, or may do so unseen."""
    known = [told.uuid] if told else []  # a machine that runs may hold the disk locked: it is asked only then
    held = seen.holders(known, leaf.spots) or seen.holders(uuids_of(leaf, told), leaf.spots)
    if held:
        raise held_by(f"volume {leaf.id!r}", held, so=_KEPT)
    if leaf.deltas:
        raise CallError(
            Code.FAILED_PRECONDITION,
            f"volume {leaf.id!r} has a snapshot ({leaf.deltas[0]}); {_KEPT}",
        )
    unread = seen.unread(seen.surroundings.same_place(leaf.store))
    if unread:
        raise perhaps_held_by(f"volume {leaf.id!r}", unread[0], so=_KEPT)


def remove_disk(vcenter: VCenter, stores: Stores, leaf: Leaf, state: State) -> Steps[None]:
    """Delete the disk by way of another name: who took it up since the check is found holding the old one.

    Then it gets its name back, and FailedPrecondition says who it was.
    """
    files, uuids = leaf.store.files, uuids_of(leaf, _told(leaf))
    if leaf.has_copying:  # nobody's yet
        yield from files.delete_disk(leaf.copying, state)
    if leaf.has_doomed:  # of a destroy that was interrupted
        yield from _delete_doomed(vcenter, stores, leaf, uuids, state)
    if leaf.has_disk:
        yield from files.move_disk(leaf.disk, leaf.doomed, state)
        yield Step("move", str(state.at("move")), f"{leaf.disk} is set aside")
        yield from _delete_doomed(vcenter, stores, replace(leaf, files={}), uuids, state)


def _delete_doomed(
    vcenter: VCenter, stores: Stores, leaf: Leaf, uuids: list[str], state: State
) -> Steps[None]:
    again = InUse.look(vcenter, stores)
    held, unread = again.holders(uuids, leaf.spots), again.unread(again.surroundings.same_place(leaf.store))
    if held or unread:
        what, so = f"volume {leaf.id!r}", _KEPT
        if not leaf.has_disk:
            yield from leaf.store.files.move_disk(leaf.doomed, leaf.disk, state)
            so = f"it has its name back and {_KEPT}"
        raise held_by(what, held, so=so) if held else perhaps_held_by(what, unread[0], so=so)
    yield from leaf.store.files.delete_disk(leaf.doomed, state)
    yield Step("delete_disk", str(state.at("delete_disk")), f"{leaf.disk} is deleted")


def remove_files(leaf: Leaf, state: State) -> Steps[None]:
    """Delete the files that belong to a volume, then the folder, unless it holds anything else."""
    left = find_leaf(leaf.store, leaf.id)
    if left is None:
        return
    if left.has_disk:
        raise CallError(Code.ABORTED, f"{left.disk} has come back while it was being destroyed")
    files = leaf.store.files
    for path in _paths(left):
        yield from files.delete(path, state)
        yield Step("delete_file", str(state.at("delete_file")), f"{path} is deleted")
    left = find_leaf(leaf.store, leaf.id)
    if left is not None and not left.files and not left.below and left.vic is None:
        yield from files.delete(left.path, state)


def _paths(leaf: Leaf) -> list[DatastorePath]:
    folder = [leaf.path / VIC_FOLDER] if leaf.vic is not None else []
    return [*folder, *(leaf.path / name for name in leaf.known)]


def _told(leaf: Leaf) -> Metadata | None:
    try:
        return leaf.metadata()
    except ValueError:
        return None


def uuids_of(leaf: Leaf, told: Metadata | None) -> list[str]:
    """Return what the disk may be known by: what it says now, and what was written down."""
    uuids = [told.uuid] if told and told.uuid else []
    for there, path in ((leaf.has_disk, leaf.disk), (leaf.has_doomed, leaf.doomed)):
        if there:
            try:
                uuids.append(leaf.store.files.disk_uuid(path))
            except CallError as error:
                if error.code not in _NO_UUID:
                    raise
    return uuids
