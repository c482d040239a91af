"""Files and folders on datastores: named, browsed, read, written, moved and deleted.

Bytes go over HTTPS (`/folder`), all else through the FileManager: the file access of some servers says that it has
deleted and has not.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self
from urllib.parse import quote
from uuid import uuid4

from pyVmomi import vim

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.follow import PAUSE, change, stop
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter

_REFUSED = {
    400: Code.INVALID_ARGUMENT,
    401: Code.UNAUTHENTICATED,
    403: Code.PERMISSION_DENIED,
    404: Code.NOT_FOUND,
    405: Code.FAILED_PRECONDITION,
    409: Code.ALREADY_EXISTS,
    413: Code.RESOURCE_EXHAUSTED,
    507: Code.RESOURCE_EXHAUSTED,
}
PATIENCE = 240.0
"""Seconds for a search: one of a store that hangs never ends, and a try has nine minutes by default."""
_Browser = vim.host.DatastoreBrowser


class DatastorePath(NamedTuple):
    """A place on a datastore in its one spelling; `str()` is `[datastore] folder/file`."""

    datastore: str
    parts: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `[datastore] folder/file`; ValueError for anything else and for a path that leads upwards."""
        name, closed, path = text.removeprefix("[").partition("]")
        parts = tuple(part for part in path.strip(" ").split("/") if part)
        if not text.startswith("[") or not closed or not name.strip() or {".", ".."} & set(parts):
            raise ValueError("should be `[datastore] folder`, without . and ..")
        return cls(name, parts)

    def __truediv__(self, name: str) -> Self:
        return type(self)(self.datastore, (*self.parts, name))

    @property
    def parent(self) -> Self:
        """The folder that it is in."""
        return type(self)(self.datastore, self.parts[:-1])

    def __str__(self) -> str:
        return f"[{self.datastore}] {'/'.join(self.parts)}"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk to be made: its size in KiB, rounded to MiB, and how its blocks are allocated.

    `policy` is the id of a storage policy.
    """

    capacity_kb: int
    format: str
    policy: str | None = None

    def spec(self) -> Any:
        """Make the spec (vSphere API, FileBackedVirtualDiskSpec); the adapter is the one that any disk may name."""
        kind = {"thick": "preallocated"}.get(self.format, self.format)
        profile = [vim.vm.DefinedProfileSpec(profileId=self.policy)] if self.policy else []
        return vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
            capacityKb=self.capacity_kb, diskType=kind, adapterType="lsiLogic", profile=profile
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder as a browse found it: file name → size in bytes."""

    path: DatastorePath
    files: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Files:
    """The file access of one datastore, within the datacenter that it was named in.

    `center` is the datacenter's whole inventory path. Changes pass the request's fence.
    """

    vcenter: VCenter = field(repr=False)
    datacenter: Ref
    center: str
    browser: Ref

    def url(self, path: DatastorePath) -> str:
        """Return where a file's bytes are."""
        where = "/".join(quote(part, safe="") for part in path.parts)
        return f"/folder/{where}?dcPath={quote(self.center, safe='')}&dsName={quote(path.datastore, safe='')}"

    def read(self, path: DatastorePath) -> bytes | None:
        """Return a file's bytes; None when there is no such file."""
        answer = self.vcenter.session.file("GET", self.url(path))
        if answer.status == 404:
            return None
        _accept(answer.status, path)
        return answer.body

    def write(self, path: DatastorePath, body: bytes) -> None:
        """Write a whole file, over what was there."""
        with self.vcenter.session.guarded(self.vcenter.fence.check):
            _accept(self.vcenter.session.file("PUT", self.url(path), body).status, path)

    def browse(self, path: DatastorePath) -> list[Folder]:
        """Find all files at and below a folder in one search; nothing when the folder is not there."""
        return list(_folders(self._search("SearchDatastoreSubFolders_Task", path, "*")))

    def names(self, path: DatastorePath, pattern: str) -> list[str]:
        """Name the files of a folder that match a pattern; nothing when the folder is not there."""
        found = self._search("SearchDatastore_Task", path, pattern)
        return sorted(name for folder in _folders([found] if found else []) for name in folder.files)

    def capacity_kb(self, path: DatastorePath) -> int | None:
        """Return a disk's size in KiB; None where vCenter tells none.

        A search of its own: one that asks for sizes opens each disk that it finds, and hides their extents.
        """
        details = _Browser.VmDiskQuery.Details(capacityKb=True, diskType=False, hardwareVersion=False)
        query = _Browser.VmDiskQuery(details=details)
        found = self._search("SearchDatastore_Task", path.parent, path.parts[-1], query) or {}
        sizes = [int(one.get("capacityKb") or 0) for one in found.get("file") or []]
        return max(sizes, default=0) or None

    def modified(self, path: DatastorePath) -> str | None:
        """Return when a file was last changed (RFC 3339); None where vCenter does not tell."""
        found = self._search("SearchDatastore_Task", path.parent, path.parts[-1], dated=True) or {}
        return next((one.get("modification") for one in found.get("file") or []), None)

    def _search(
        self, method: str, path: DatastorePath, pattern: str, query: Any = None, *, dated: bool = False
    ) -> Any:
        """Search a folder; None when it is not there."""
        details = _Browser.FileInfo.Details(
            fileType=query is not None, fileSize=True, modification=dated, fileOwner=False
        )
        spec = _Browser.SearchSpec(
            details=details, matchPattern=[pattern], query=[query] if query is not None else []
        )
        try:
            task = self.vcenter.ask(self.browser, method, datastorePath=str(path), searchSpec=spec)
            return self._result(task, path)
        except CallError as error:
            if fault_name(error) in {"FileNotFound", "NotFound"}:
                return None
            raise

    def _result(self, task: Ref, path: DatastorePath) -> Any:
        watched, until = self.vcenter.session.watch(task, "browse"), time.monotonic() + PATIENCE
        while (info := watched.poll(PAUSE)) is None:
            if time.monotonic() > until:
                stop(self.vcenter, task)
                raise CallError(Code.UNAVAILABLE, f"vCenter has not looked through {path} in {PATIENCE:g} s")
        if info.error is not None:
            raise info.error
        return info.result

    def make_folder(self, path: DatastorePath, *, parents: bool = False) -> None:
        """Make a folder; AlreadyExists without `parents`, with them it may be there."""
        try:
            self.vcenter.change(
                "make_folder",
                self.vcenter.session.content["fileManager"],
                "MakeDirectory",
                name=str(path),
                datacenter=self.datacenter,
                createParentDirectories=parents,
            )
        except CallError as error:
            if not parents or fault_name(error) != "FileAlreadyExists":
                raise

    def move(
        self, path: DatastorePath, to: DatastorePath, state: State, *, over: bool = False
    ) -> Steps[None]:
        """Rename a file; unless it may go `over` another, AlreadyExists when the new name is taken: one mover wins."""
        arguments = {"destinationName": str(to), "destinationDatacenter": self.datacenter, "force": over}
        yield from self._move("fileManager", "MoveDatastoreFile_Task", path, state, arguments)

    def move_disk(self, path: DatastorePath, to: DatastorePath, state: State) -> Steps[None]:
        """Rename a disk with its extents."""
        arguments = {"destName": str(to), "destDatacenter": self.datacenter, "force": False}
        yield from self._move("virtualDiskManager", "MoveVirtualDisk_Task", path, state, arguments)

    def copy_disk(self, path: DatastorePath, there: Self, to: DatastorePath) -> Ref:
        """Begin to copy a disk with its extents to where `there` leads, also to another datacenter; return the task.

        vCenter chooses how the copy's blocks are allocated: it does not implement a spec for it.
        """
        task: Ref = self.vcenter.change(
            "copy",
            self.vcenter.session.content["virtualDiskManager"],
            "CopyVirtualDisk_Task",
            sourceName=str(path),
            sourceDatacenter=self.datacenter,
            destName=str(to),
            destDatacenter=there.datacenter,
            force=False,
        )
        return task

    def grow_disk(self, path: DatastorePath, capacity_kb: int, state: State, *, zeroed: bool) -> Steps[None]:
        """Grow a disk that no VM has; `zeroed` also writes all that is new, as in an eagerZeroedThick one."""
        arguments = {"name": str(path), "datacenter": self.datacenter, "newCapacityKb": capacity_kb}
        manager = self.vcenter.session.content["virtualDiskManager"]
        method, message = "ExtendVirtualDisk_Task", f"growing {path}"
        yield from change(
            self.vcenter, "grow", manager, method, state, message, eagerZero=zeroed, **arguments
        )

    def make_disk(self, path: DatastorePath, disk: Disk, state: State) -> Steps[None]:
        """Make a disk in a folder that is there."""
        manager = self.vcenter.session.content["virtualDiskManager"]
        arguments = {"name": str(path), "datacenter": self.datacenter, "spec": disk.spec()}
        method = "CreateVirtualDisk_Task"
        yield from change(self.vcenter, "create_disk", manager, method, state, f"making {path}", **arguments)

    def disk_uuid(self, path: DatastorePath) -> str:
        """Return a disk's uuid as 32 hex digits."""
        manager = self.vcenter.session.content["virtualDiskManager"]
        told = self.vcenter.ask(manager, "QueryVirtualDiskUuid", name=str(path), datacenter=self.datacenter)
        return plain_uuid(told)

    def new_disk_uuid(self, path: DatastorePath) -> None:
        """Give a disk a uuid of its own, in the form of those that vCenter makes."""
        digits = f"6000c29{uuid4().hex[7:]}"
        pairs = [digits[at : at + 2] for at in range(0, 32, 2)]
        self.vcenter.change(
            "set_uuid",
            self.vcenter.session.content["virtualDiskManager"],
            "SetVirtualDiskUuid",
            name=str(path),
            datacenter=self.datacenter,
            uuid=f"{' '.join(pairs[:8])}-{' '.join(pairs[8:])}",
        )

    def delete(self, path: DatastorePath, state: State) -> Steps[None]:
        """Delete a file, or a folder with all that is in it; one that is gone already is fine."""
        yield from self._delete("delete_file", "fileManager", "DeleteDatastoreFile_Task", path, state)

    def delete_disk(self, path: DatastorePath, state: State) -> Steps[None]:
        """Delete a disk with its extents; a descriptor that has lost them is a file."""
        gone = yield from self._delete(
            "delete_disk", "virtualDiskManager", "DeleteVirtualDisk_Task", path, state
        )
        if not gone:
            yield from self.delete(path, state)

    def _move(
        self, manager: str, method: str, path: DatastorePath, state: State, to: Mapping[str, Any]
    ) -> Steps[None]:
        yield from change(
            self.vcenter,
            "move",
            self.vcenter.session.content[manager],
            method,
            state,
            f"renaming {path}",
            sourceName=str(path),
            sourceDatacenter=self.datacenter,
            **to,
        )

    def _delete(self, step: str, manager: str, method: str, path: DatastorePath, state: State) -> Steps[bool]:
        """Say whether vCenter found all of it."""
        arguments = {"name": str(path), "datacenter": self.datacenter}
        holder = self.vcenter.session.content[manager]
        try:
            yield from change(self.vcenter, step, holder, method, state, f"deleting {path}", **arguments)
        except CallError as error:
            if error.code is not Code.NOT_FOUND:
                raise
            return False
        return True


def plain_uuid(text: str | None) -> str:
    """Return a uuid in the one form that compares: vCenter writes those of disks in several."""
    return "".join(char for char in (text or "").lower() if char in "0123456789abcdef")


def _accept(status: int, path: DatastorePath) -> None:
    if status >= 300:
        code = _REFUSED.get(status, Code.UNKNOWN)
        raise CallError(code, f"vCenter's file access answers HTTP {status} for {path}")


def _folders(results: Any) -> Iterator[Folder]:
    for result in results or []:
        files = result.get("file") or []
        yield Folder(
            DatastorePath.parse(result["folderPath"]),
            {one["path"]: int(one.get("fileSize") or 0) for one in files if one["_type"] != "FolderFileInfo"},
        )
