"""The task watcher: one thread per session that reads all pending tasks in one call."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere import reader
from vsphere_functions.vsphere.faults import as_call_error, fault_name
from vsphere_functions.vsphere.ref import Ref

PATHS = ("info.state", "info.progress", "info.error", "info.result")
SHORTEST, LONGEST = 0.1, 1.0
"""Seconds between two looks at a task: a tenth of its age, within these bounds."""
IDLE = 5.0
"""Seconds that the thread waits for another task before it ends."""

_ITS_OWN = frozenset({Code.PERMISSION_DENIED, Code.INTERNAL, Code.INVALID_ARGUMENT})
"""Codes of a read that is refused because of what it reads, so that it will be refused again."""

_Read = Callable[[Iterable[Ref], Mapping[str, Sequence[str]]], dict[Ref, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """How a task ended; `vanished`: it is gone, so nobody knows how (Unknown; look at what it was to change)."""

    state: Literal["success", "error"]
    result: Any = None
    error: CallError | None = None
    vanished: bool = False

    @property
    def fault(self) -> str | None:
        """The type name of the fault it ended with, such as `DuplicateName`."""
        return fault_name(self.error) if self.error else None


class Watched:
    """A task that is followed for as long as somebody holds this."""

    def __init__(self, task: Ref, step: str | None, watcher: "TaskWatcher") -> None:
        self.task = task
        self.progress: int | None = None
        self._step = step
        self._watcher = watcher
        self._since = time.monotonic()
        self._due = self._since
        self._info: TaskInfo | None = None
        self._ended = threading.Event()

    def poll(self, timeout: float) -> TaskInfo | None:
        """Wait up to `timeout` seconds for the task's end; None while it runs."""
        if not self._ended.is_set():
            self._watcher.attend()
            self._ended.wait(timeout)
        return self._info

    def _take(self, row: Mapping[str, Any] | None) -> None:
        """Take in what was read of the task; None when it is gone."""
        now = time.monotonic()
        self._due = now + min(max((now - self._since) / 10, SHORTEST), LONGEST)
        if row is None:
            lost = CallError(Code.UNKNOWN, f"task {self.task.id} is gone, and nobody knows how it ended")
            self._end(TaskInfo("error", error=lost, vanished=True))
        elif row.get("info.state") == "success":
            self._end(TaskInfo("success", row.get("info.result")))
        elif row.get("info.state") == "error":
            fault = reader.localized(row.get("info.error") or {})
            self._end(TaskInfo("error", error=as_call_error(fault, self._step, "task")))
        else:
            self.progress = row.get("info.progress", self.progress)

    def _end(self, info: TaskInfo) -> None:
        self._info = info
        self._ended.set()


class TaskWatcher:
    """Follows the tasks of one session by its `read`; what cannot be read at the moment is read later."""

    def __init__(self, read: _Read) -> None:
        self._read = read
        self._pending: WeakSet[Watched] = WeakSet()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, task: Ref, step: str | None) -> Watched:
        """Follow a task from now on; the first look comes at once."""
        watched = Watched(task, step, self)
        with self._changed:
            self._pending.add(watched)
        self.attend()
        return watched

    def attend(self) -> None:
        """See to it that the thread runs and looks at its list."""
        with self._changed:
            if self._closed:
                return
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="vsphere-tasks", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop looking; pending tasks stay without an end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while self._turn():
            pass  # nothing here may keep a task that nobody else holds any more

    def _turn(self) -> bool:
        due = self._next()
        if due:
            self._look(due)
        return due is not None

    def _next(self) -> list[Watched] | None:
        """Wait until tasks are due and return them; None when it is time to end."""
        idle_since = time.monotonic()
        with self._changed:
            while not self._closed:
                pending = list(self._pending)
                now = time.monotonic()
                due = [watched for watched in pending if watched._due <= now]  # noqa: SLF001 - one concept, two classes
                if due:
                    return due
                if not pending and now - idle_since >= IDLE:
                    break
                until = min((watched._due for watched in pending), default=now + IDLE)  # noqa: SLF001 - as above
                del pending  # as in _run
                self._changed.wait(until - now)
            self._thread = None
            return None

    def _look(self, due: list[Watched]) -> None:
        """Read the tasks that are due, together; one by one when one of them is why they are refused."""
        try:
            rows = self._read({watched.task for watched in due}, {"Task": PATHS})
        except CallError as error:
            if error.code in _ITS_OWN and len(due) > 1:
                for watched in due:
                    self._look([watched])
                return
            self._postpone(due, error)
            return
        for watched in due:
            watched._take(rows.get(watched.task))  # noqa: SLF001 - as above
            if watched._ended.is_set():  # noqa: SLF001 - as above
                self._pending.discard(watched)

    def _postpone(self, due: list[Watched], error: CallError) -> None:
        """Look again later, unless this task may not be read at all."""
        for watched in due:
            if error.code in _ITS_OWN:
                watched._end(TaskInfo("error", error=error, vanished=True))  # noqa: SLF001 - as above
                self._pending.discard(watched)
            else:
                watched._due = time.monotonic() + LONGEST  # noqa: SLF001 - as above
