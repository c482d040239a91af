"""The making of a volume: folder, claim, disk, and metadata last; each step looks before it acts."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere import claims_file, metadata
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.files import DatastorePath, Disk
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.metadata import Metadata, info_digest
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Store, Stores
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import DOOMED, Leaf, find_leaf, moved_to
from vsphere_functions.vsphere.volumes_destroy import remove_disk
from vsphere_functions.vsphere.volumes_undo import sweep

_GOES_ON = {Code.DEADLINE_EXCEEDED, Code.CANCELED}
"""Errors that leave what was made to whoever goes on with the request, or undoes it."""
_OUTRUN = {"FileAlreadyExists", "FileNotFound"}
"""Faults that say that another delivery of the request is at work: what stands there is its own, too."""


@dataclass(frozen=True, slots=True)
class WantedVolume:
    """What a create asks for; `operation` tells its request from others, `clock` says when a claim is old.

    `origin` is the uuid of the disk that is to be copied, empty for a new one.
    """

    id: str
    disk: Disk
    info: Mapping[str, str]
    operation: str
    clock: Callable[[], datetime]
    origin: str = ""

    def claim(self) -> Claim:
        """Make this operation's claim."""
        since = self.clock().isoformat(timespec="seconds")
        return Claim(self.operation, self.disk.capacity_kb, info_digest(self.info), since, origin=self.origin)

    def metadata(self, uuid: str) -> Metadata:
        """Make what is written down once the disk stands."""
        created = self.clock().isoformat(timespec="seconds")
        return Metadata(
            self.disk.capacity_kb,
            dict(self.info),
            created,
            uuid,
            self.disk.format,
            self.origin,
            self.operation,
        )


@dataclass(frozen=True, slots=True)
class Making:
    """One create at work in one store."""

    vcenter: VCenter
    stores: Stores
    store: Store
    want: WantedVolume
    state: State

    def step(self, phase: str, message: str) -> Step:
        """Say what has been done."""
        return Step(phase, str(self.state.at(phase)), message)

    def run(self) -> Steps[tuple[Leaf, Metadata]]:
        """Make the volume, or finish what an earlier create has begun.

        What this call has made is removed again when it fails, except when its time is up: then the next try goes on,
        or undoes it, when the request is canceled.
        """
        leaf = yield from self._enter()
        told = self._standing(leaf)
        if told is not None:
            if leaf.has_claim or leaf.has_copying:
                with suppress(CallError):
                    yield from self._tidy(leaf)
            return leaf, told
        claim, leaf = yield from self._claim(leaf)
        try:
            told = yield from self._build(leaf, claim)
        except CallError as error:
            if error.code not in _GOES_ON and fault_name(error) not in _OUTRUN:
                self._undo()
            if fault_name(error) == "FileNotFound":
                raise CallError(Code.ABORTED, f"the folder of volume {self.want.id!r} went away") from error
            raise
        with suppress(CallError):  # the volume is whole; a claim that is left behind says nothing any more
            yield from self._tidy(leaf)
        return leaf, told

    def _enter(self) -> Steps[Leaf]:
        """Make the volume's folder, and those above it when they are missing; look into one that is there."""
        files, path = self.store.files, self.store.folder / self.want.id
        for last in (False, True):
            try:
                files.make_folder(path)
            except CallError as error:
                fault = fault_name(error)
                if fault == "FileAlreadyExists":
                    break
                if fault != "FileNotFound" or last:
                    raise
                files.make_folder(self.store.folder, parents=True)
            else:
                yield self.step("make_folder", f"made {path}")
                return Leaf(self.store, self.want.id)
        leaf = find_leaf(self.store, self.want.id)
        if leaf is None:
            raise CallError(Code.ABORTED, f"the folder of volume {self.want.id!r} has just gone away")
        return leaf

    def _standing(self, leaf: Leaf) -> Metadata | None:
        """Return the metadata of a volume that is whole and as wanted; None when there is something left to do."""
        name = self.want.id
        if leaf.vic is not None and not leaf.has_metadata:
            raise CallError(Code.ALREADY_EXISTS, f"volume {name!r} is one of VIC's; it was left alone")
        # Without metadata it was never whole: then a create was undone half-way.
        if leaf.has_doomed and leaf.has_metadata:
            raise CallError(
                Code.FAILED_PRECONDITION, f"the destroy of volume {name!r} has begun; destroy it again first"
            )
        try:
            told = leaf.metadata()
        except ValueError as odd:
            raise CallError(Code.FAILED_PRECONDITION, f"volume {name!r} cannot be used: {odd}") from None
        if told is None:
            return None
        self._refuse_another(told)
        if not leaf.has_disk:
            moved = moved_to(leaf, told, InUse.look(self.vcenter, self.stores))
            where = f"was moved to {moved}" if moved else "is not there; destroy removes what is left"
            raise CallError(Code.FAILED_PRECONDITION, f"the disk of volume {name!r} {where}")
        return told

    def _refuse_another(self, told: Metadata) -> None:
        wanted = self.want.claim()
        if wanted.origin and wanted.origin != told.origin:
            message = f"volume {self.want.id!r} stands already and is no copy of this one; it was left alone"
            raise CallError(Code.ALREADY_EXISTS, message)
        # What this request has made may have grown since, before its own result was kept.
        as_large = told.capacity_kb == wanted.capacity_kb or told.operation == wanted.operation
        if not as_large or told.digest != wanted.digest:
            what = "info" if as_large else f"size, {told.capacity_kb} KiB"
            raise CallError(
                Code.ALREADY_EXISTS,
                f"volume {self.want.id!r} stands already with another {what}; it was left alone",
            )

    def _claim(self, leaf: Leaf) -> Steps[tuple[Claim, Leaf]]:
        """Take the claim; Aborted while another operation has it. A stale one is taken over."""
        mine, before = self.want.claim(), leaf.claim()
        if before is not None and before.holds_against(self.want.operation, self.want.clock()):
            raise CallError(
                Code.ABORTED, f"volume {self.want.id!r} is being made by another request since {before.since}"
            )
        if before.found if before else leaf.has_disk:
            mine = mine.sparing_the_disk()
        if before is not None and before.makes_the_same(mine):
            mine = replace(mine, task=before.task, vcenter=before.vcenter)
        path = leaf.path / claims_file.FILE
        if before is not None and before.operation == mine.operation:
            leaf.store.files.write(path, mine.render())
        else:
            if leaf.has_claim:
                yield from self._set_aside(leaf, before)
            yield from self._place(path, mine.render())
        yield self.step("claim", f"claimed {leaf.path}")
        if leaf.has_doomed:
            left = {
                name: size
                for name, size in leaf.files.items()
                if name.startswith(DOOMED.removesuffix(".vmdk"))
            }
            yield from remove_disk(self.vcenter, self.stores, replace(leaf, files=left), self.state)
            leaf = replace(leaf, files={n: size for n, size in leaf.files.items() if n not in left})
        begun = leaf.has_disk or leaf.has_copying
        if begun and before is not None and not mine.found and not before.makes_the_same(mine):
            yield from remove_disk(self.vcenter, self.stores, leaf, self.state)
            leaf = replace(leaf, files={n: size for n, size in leaf.files.items() if not n.endswith(".vmdk")})
        return mine, leaf

    def _set_aside(self, leaf: Leaf, seen: Claim | None) -> Steps[None]:
        """Take a stale claim away; it goes back when it is not the one that was seen."""
        path, aside = leaf.path / claims_file.FILE, temporary_in(leaf.path)
        try:
            yield from leaf.store.files.move(path, aside, self.state)
        except CallError as error:
            raise self._outrun(error) from error.__cause__
        taken = leaf.store.files.read(aside)
        if (Claim.parse(taken) if taken else None) != seen:
            with suppress(CallError):
                yield from leaf.store.files.move(aside, path, self.state)
            raise self._outrun()
        yield from leaf.store.files.delete(aside, self.state)

    def _place(self, path: DatastorePath, body: bytes) -> Steps[None]:
        """Put a file where none is yet: of two who do, one wins and the other is Aborted."""
        temporary = temporary_in(path.parent)
        self.store.files.write(temporary, body)
        try:
            yield from self.store.files.move(temporary, path, self.state)
        except CallError as error:
            with suppress(CallError):
                yield from self.store.files.delete(temporary, self.state)
            raise self._outrun(error) from error.__cause__

    def _outrun(self, error: CallError | None = None) -> CallError:
        """Say that somebody else was faster; any other error stays what it is."""
        if error is not None and fault_name(error) not in _OUTRUN:
            return error
        return CallError(Code.ABORTED, f"another request is making volume {self.want.id!r} at this moment")

    def _build(self, leaf: Leaf, claim: Claim) -> Steps[Metadata]:
        """Make the disk and then the metadata, whose presence says that the volume is whole."""
        if not leaf.has_disk:
            yield from self._make_disk(leaf, claim)
            yield self.step("create_disk", f"made {leaf.disk}")
        elif claim.found:
            self._refuse_found(leaf)
        told = self.want.metadata(self.store.files.disk_uuid(leaf.disk))
        yield from self._place(leaf.path / metadata.FILE, told.render())
        yield self.step("metadata", f"volume {self.want.id} is whole")
        return told

    def _make_disk(self, leaf: Leaf, claim: Claim) -> Steps[None]:  # noqa: ARG002 - a copy's notes its task there
        """Put the disk in its place; it may have come there meanwhile."""
        try:
            yield from self.store.files.make_disk(leaf.disk, self.want.disk, self.state)
        except CallError as error:
            if fault_name(error) != "FileAlreadyExists":
                raise

    def _refuse_found(self, leaf: Leaf) -> None:
        """Refuse to take a disk that lay there for the volume when vCenter says that it has another size."""
        size = self.store.files.capacity_kb(leaf.disk)
        if size is not None and size != self.want.disk.capacity_kb:
            raise CallError(
                Code.ALREADY_EXISTS,
                f"a disk of another size, {size} KiB, lies where volume {self.want.id!r} would be; it was left alone",
            )

    def _tidy(self, leaf: Leaf) -> Steps[None]:
        """Remove the claim and what interrupted tries have left beside it."""
        if leaf.has_copying:
            yield from leaf.store.files.delete_disk(leaf.copying, self.state)
        for name in (*leaf.temporaries, claims_file.FILE):
            yield from leaf.store.files.delete(leaf.path / name, self.state)

    def _undo(self) -> None:
        """Take it back as far as that can be done now; the next create goes on from the rest."""
        with suppress(CallError):
            leaf = find_leaf(self.store, self.want.id)
            drain(sweep(self.vcenter, self.stores, leaf, self.want.operation))


def drain(steps: Steps[None]) -> None:
    """Do all of it without telling: for clearing up, which nothing should interrupt half-way."""
    for _ in steps:
        pass


def temporary_in(folder: DatastorePath) -> DatastorePath:
    """Name a file that is not in its place yet; sweeps know it by its name."""
    return folder / f"_{uuid4().hex}.json"
