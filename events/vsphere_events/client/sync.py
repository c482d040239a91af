"""The client for plain scripts: the same methods, without asyncio."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock, Thread
from typing import Any, Self, TypeVar, Unpack

from vsphere_events.client.client import Client, Data, R
from vsphere_events.client.events import SOURCE, How, Told, Where
from vsphere_events.client.pending import Pending
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode
from vsphere_events.error import CallError
from vsphere_events.machine import (
    CreateMachineResult,
    DeleteMachineResult,
    GetMachineStatusResult,
    InitializeMachineResult,
    ListMachinesResult,
    ShutDownMachineResult,
    ValidateMachineResult,
)
from vsphere_events.outcome import Progress
from vsphere_events.request import CancelRequestResult, FindOrphansResult
from vsphere_events.volume import (
    AttachVolumeResult,
    CopyVolumeResult,
    CreateVolumeResult,
    DestroyVolumeResult,
    DetachVolumeResult,
    GetVolumeIdsResult,
    GetVolumeResult,
    ListVolumesResult,
    ResizeVolumeResult,
)

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own for the time of a `with`; threads may share it."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._gate = Lock()
        self._open = True
        # Should a second ^C cut the joining short, the thread must not keep the process.
        self._thread = Thread(target=self._turn, name="vsphere-events", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._gate:
            self._open = False
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(self, work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Await a call there; an interrupt of the caller ends it. Canceled when the loop is closed meanwhile."""
        answer: Future[T] = Future()
        with self._gate:
            if not self._open:
                raise _closed()
            self._loop.call_soon_threadsafe(self._begin, answer, partial(work, *arguments))
        try:
            return answer.result()
        except CancelledError:
            raise _closed() from None
        except BaseException:
            answer.cancel()
            raise

    def _begin(self, answer: Future[T], work: Callable[[], Awaitable[T]]) -> None:
        """Call and await; done here, since an interrupt of the caller would leave a coroutine unawaited."""
        task = self._loop.create_task(_settle(answer, work))
        # A task that is ended before its first step settles nothing.
        task.add_done_callback(lambda _: answer.cancel())
        answer.add_done_callback(lambda _: self._loop.call_soon_threadsafe(task.cancel))

    def _turn(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # ends what is left, and closes
            runner.get_loop().run_forever()


class SyncPending:
    """As `Pending`: iterate over the progress, then take the result. For one reader."""

    def __init__(self, loop: Loop, pending: Pending) -> None:
        self.request = pending.request
        self.token = pending.token
        self._loop = loop
        self._pending = pending

    @property
    def ahead(self) -> int | None:
        """How many requests are before this one, at most; None once it has begun, or while nobody waits."""
        return self._pending.ahead

    def __iter__(self) -> Iterator[Progress]:
        """Yield what is said on the way; ends when the result is there. DeadlineExceeded when none comes."""
        while said := self._loop.run(_said, self._pending):
            yield said

    def event(self) -> CloudEvent:
        """Wait for the result event, succeeded or failed."""
        return self._loop.run(self._pending.event)

    def result(self) -> Any:
        """Wait for the function's result model; the failed result is raised as a CallError."""
        return self._loop.run(self._pending.result)


class SyncClient:
    """As `Client`, with a connection and a thread of its own for the time of a `with`; threads may share it.

    Arguments are those of `Client.connected`. ^C ends the waiting, not the request: that is stored, and the same id
    and source ask for its result.
    """

    def __init__(
        self,
        url: str | list[str],
        *,
        source: str = SOURCE,
        vcenter: str = "default",
        mode: Mode = Mode.STRUCTURED,
        **options: Any,
    ) -> None:
        self._connect = partial(Client.connected, url, source=source, vcenter=vcenter, mode=mode, **options)
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        with self._opened as opening:
            self._loop = opening.enter_context(Loop())
            self._client = opening.enter_context(inside(self._loop, self._connect()))
            self._opened = opening.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def create_machine(self, data: Data, **how: Unpack[Told]) -> CreateMachineResult:
        """Make a machine, or finish the one that an earlier request began."""
        return self._result(CreateMachineResult, "create_machine", data, how)

    def delete_machine(self, data: Data, **how: Unpack[Told]) -> DeleteMachineResult:
        """Delete a machine; what it was not born with survives it."""
        return self._result(DeleteMachineResult, "delete_machine", data, how)

    def initialize_machine(self, data: Data, **how: Unpack[Told]) -> InitializeMachineResult:
        """Finish a half-built machine; nothing is cloned."""
        return self._result(InitializeMachineResult, "initialize_machine", data, how)

    def get_machine_status(self, data: Data, **how: Unpack[Told]) -> GetMachineStatusResult:
        """Say how a machine is; NotFound once its absence is proven."""
        return self._result(GetMachineStatusResult, "get_machine_status", data, how)

    def list_machines(self, data: Data, **how: Unpack[Told]) -> ListMachinesResult:
        """List an owner's machines, one page of them."""
        return self._result(ListMachinesResult, "list_machines", data, how)

    def shut_down_machine(self, data: Data, **how: Unpack[Told]) -> ShutDownMachineResult:
        """Stop a machine, as softly as `mode` says."""
        return self._result(ShutDownMachineResult, "shut_down_machine", data, how)

    def get_volume_ids(self, data: Data, **how: Unpack[Told]) -> GetVolumeIdsResult:
        """Name the vSphere volumes behind Kubernetes PV specs, in their order."""
        return self._result(GetVolumeIdsResult, "get_volume_ids", data, how)

    def create_volume(self, data: Data, **how: Unpack[Told]) -> CreateVolumeResult:
        """Make a volume; without `id` an anonymous one."""
        return self._result(CreateVolumeResult, "create_volume", data, how)

    def get_volume(self, data: Data, **how: Unpack[Told]) -> GetVolumeResult:
        """Look at one volume."""
        return self._result(GetVolumeResult, "get_volume", data, how)

    def destroy_volume(self, data: Data, **how: Unpack[Told]) -> DestroyVolumeResult:
        """Destroy a volume that no VM holds."""
        return self._result(DestroyVolumeResult, "destroy_volume", data, how)

    def list_volumes(self, data: Data, **how: Unpack[Told]) -> ListVolumesResult:
        """List the volumes of one store or of all, one page of them."""
        return self._result(ListVolumesResult, "list_volumes", data, how)

    def attach_volume(self, data: Data, **how: Unpack[Told]) -> AttachVolumeResult:
        """Attach a volume, or a disk by its vmdk path, to a machine."""
        return self._result(AttachVolumeResult, "attach_volume", data, how)

    def detach_volume(self, data: Data, **how: Unpack[Told]) -> DetachVolumeResult:
        """Detach a volume, or a disk by its vmdk path, from a machine."""
        return self._result(DetachVolumeResult, "detach_volume", data, how)

    def resize_volume(self, data: Data, **how: Unpack[Told]) -> ResizeVolumeResult:
        """Grow a volume to `capacityKB`."""
        return self._result(ResizeVolumeResult, "resize_volume", data, how)

    def copy_volume(self, data: Data, **how: Unpack[Told]) -> CopyVolumeResult:
        """Copy a volume to a new id."""
        return self._result(CopyVolumeResult, "copy_volume", data, how)

    def find_orphans(self, data: Data, **how: Unpack[Told]) -> FindOrphansResult:
        """Find VMs of an owner, and leftovers of volumes, that nobody wants; delete those an earlier answer named."""
        return self._result(FindOrphansResult, "find_orphans", data, how)

    def cancel_request(self, data: Data, **how: Unpack[Told]) -> CancelRequestResult:
        """Stop an earlier request, named by its source and id."""
        return self._result(CancelRequestResult, "cancel_request", data, how)

    def validate_machine(self, data: Data, **how: Unpack[Told]) -> ValidateMachineResult:
        """Check a create without changing anything."""
        return self._result(ValidateMachineResult, "validate_machine", data, how)

    def list_all_machines(self, data: Data, **where: Unpack[Where]) -> ListMachinesResult:
        """List an owner's machines, all pages as one; `timeout` is for the whole of it."""
        return self._loop.run(partial(self._client.list_all_machines, data, **where))

    def request(
        self,
        function: str,
        data: Data,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        **how: Unpack[How],
    ) -> Any:
        """Send a request and wait for its result model; `on_progress` is called in the caller's thread."""
        with self.send(function, data, **how) as pending:
            for said in pending:
                on_progress(said)
            return pending.result()

    @contextmanager
    def send(self, function: str, data: Data, **how: Unpack[How]) -> Iterator[SyncPending]:
        """Store a request and listen for what becomes of it while the `with` lasts."""
        with inside(self._loop, self._client.send(function, data, **how)) as pending:
            yield SyncPending(self._loop, pending)

    def _result(self, model: type[R], function: str, data: Data, how: Told) -> R:
        result = self.request(function, data, **how)
        assert isinstance(result, model)
        return result


@contextmanager
def inside(loop: Loop, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter and leave there; what happens inside the `with` is none of the manager's."""
    entered = loop.run(manager.__aenter__)
    try:
        yield entered
    finally:
        loop.run(manager.__aexit__, None, None, None)


async def _settle(answer: Future[T], work: Callable[[], Awaitable[T]]) -> None:
    give: Callable[[], object]
    try:
        give = partial(answer.set_result, await work())
    except asyncio.CancelledError:
        give = answer.cancel
    except Exception as error:  # noqa: BLE001 - whatever it is, the caller is to have it
        give = partial(answer.set_exception, error)
    with suppress(InvalidStateError):  # the caller has given up
        give()


async def _said(pending: Pending) -> Progress | None:
    return await anext(pending, None)


def _closed() -> CallError:
    return CallError(Code.CANCELED, "the client is closed")
