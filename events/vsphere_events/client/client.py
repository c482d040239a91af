"""The client for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Self, TypeAlias, TypeVar, Unpack

from nats.aio.client import Client as Connection
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from vsphere_events.client.events import SOURCE, How, Told, Where, request_event
from vsphere_events.client.pending import Pending
from vsphere_events.client.storing import store
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
from vsphere_events.model import Result
from vsphere_events.outcome import Progress
from vsphere_events.request import CancelRequestResult, FindOrphansResult
from vsphere_events.subjects import progress_subject, queue_subject, request_subject, result_subject
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

Data: TypeAlias = Mapping[str, Any]
R = TypeVar("R", bound=Result)

_TIMEOUT = 3600.0
_CONNECT_SECONDS = 10.0


class Client:
    """Sends requests over one connection, which stays its owner's; `source` names the producer in its events.

    A method for each function takes the request's data as the contract spells them and awaits the result model; a
    failed result is raised as a CallError. `send` gives what is pending, with its progress as an async iterator.
    Two producers that use one source must not use the same event ids.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        source: str = SOURCE,
        vcenter: str = "default",
        mode: Mode = Mode.STRUCTURED,
    ) -> None:
        self.connection = connection
        self.source = source
        self.vcenter = vcenter
        self.mode = mode

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        url: str | list[str],
        *,
        source: str = SOURCE,
        vcenter: str = "default",
        mode: Mode = Mode.STRUCTURED,
        **options: Any,
    ) -> AsyncIterator[Self]:
        """Connect for the time of a `with`, and again after each outage; `options` are those of `nats.connect`.

        Unavailable when there is no connection within ten seconds.
        """
        connection = Connection()
        try:
            await _connect(connection, url, options)
            yield cls(connection, source=source, vcenter=vcenter, mode=mode)
        finally:
            await connection.close()

    async def create_machine(self, data: Data, **how: Unpack[Told]) -> CreateMachineResult:
        """Make a machine, or finish the one that an earlier request began."""
        return await self._result(CreateMachineResult, "create_machine", data, how)

    async def delete_machine(self, data: Data, **how: Unpack[Told]) -> DeleteMachineResult:
        """Delete a machine; what it was not born with survives it."""
        return await self._result(DeleteMachineResult, "delete_machine", data, how)

    async def initialize_machine(self, data: Data, **how: Unpack[Told]) -> InitializeMachineResult:
        """Finish a half-built machine; nothing is cloned."""
        return await self._result(InitializeMachineResult, "initialize_machine", data, how)

    async def get_machine_status(self, data: Data, **how: Unpack[Told]) -> GetMachineStatusResult:
        """Say how a machine is; NotFound once its absence is proven."""
        return await self._result(GetMachineStatusResult, "get_machine_status", data, how)

    async def list_machines(self, data: Data, **how: Unpack[Told]) -> ListMachinesResult:
        """List an owner's machines, one page of them."""
        return await self._result(ListMachinesResult, "list_machines", data, how)

    async def shut_down_machine(self, data: Data, **how: Unpack[Told]) -> ShutDownMachineResult:
        """Stop a machine, as softly as `mode` says."""
        return await self._result(ShutDownMachineResult, "shut_down_machine", data, how)

    async def get_volume_ids(self, data: Data, **how: Unpack[Told]) -> GetVolumeIdsResult:
        """Name the vSphere volumes behind Kubernetes PV specs, in their order."""
        return await self._result(GetVolumeIdsResult, "get_volume_ids", data, how)

    async def create_volume(self, data: Data, **how: Unpack[Told]) -> CreateVolumeResult:
        """Make a volume; without `id` an anonymous one."""
        return await self._result(CreateVolumeResult, "create_volume", data, how)

    async def get_volume(self, data: Data, **how: Unpack[Told]) -> GetVolumeResult:
        """Look at one volume."""
        return await self._result(GetVolumeResult, "get_volume", data, how)

    async def destroy_volume(self, data: Data, **how: Unpack[Told]) -> DestroyVolumeResult:
        """Destroy a volume that no VM holds."""
        return await self._result(DestroyVolumeResult, "destroy_volume", data, how)

    async def list_volumes(self, data: Data, **how: Unpack[Told]) -> ListVolumesResult:
        """List the volumes of one store or of all, one page of them."""
        return await self._result(ListVolumesResult, "list_volumes", data, how)

    async def attach_volume(self, data: Data, **how: Unpack[Told]) -> AttachVolumeResult:
        """Attach a volume, or a disk by its vmdk path, to a machine."""
        return await self._result(AttachVolumeResult, "attach_volume", data, how)

    async def detach_volume(self, data: Data, **how: Unpack[Told]) -> DetachVolumeResult:
        """Detach a volume, or a disk by its vmdk path, from a machine."""
        return await self._result(DetachVolumeResult, "detach_volume", data, how)

    async def resize_volume(self, data: Data, **how: Unpack[Told]) -> ResizeVolumeResult:
        """Grow a volume to `capacityKB`."""
        return await self._result(ResizeVolumeResult, "resize_volume", data, how)

    async def copy_volume(self, data: Data, **how: Unpack[Told]) -> CopyVolumeResult:
        """Copy a volume to a new id."""
        return await self._result(CopyVolumeResult, "copy_volume", data, how)

    async def find_orphans(self, data: Data, **how: Unpack[Told]) -> FindOrphansResult:
        """Find VMs of an owner, and leftovers of volumes, that nobody wants; delete those an earlier answer named."""
        return await self._result(FindOrphansResult, "find_orphans", data, how)

    async def cancel_request(self, data: Data, **how: Unpack[Told]) -> CancelRequestResult:
        """Stop an earlier request, named by its source and id."""
        return await self._result(CancelRequestResult, "cancel_request", data, how)

    async def validate_machine(self, data: Data, **how: Unpack[Told]) -> ValidateMachineResult:
        """Check a create without changing anything."""
        return await self._result(ValidateMachineResult, "validate_machine", data, how)

    async def list_all_machines(self, data: Data, **where: Unpack[Where]) -> ListMachinesResult:
        """List an owner's machines, all pages as one; `timeout` is for the whole of it.

        Each page is of a look of its own: `creating`, `copies` and `unknown` name what any of them saw.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + where.get("timeout", _TIMEOUT)
        pages = [await self.list_machines(data, **where)]
        while token := pages[-1].next_page_token:
            left: Where = {**where, "timeout": until - clock()}
            pages.append(await self.list_machines({**data, "pageToken": token}, **left))
        return _as_one(pages)

    async def request(
        self,
        function: str,
        data: Data,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
        **how: Unpack[How],
    ) -> Any:
        """Send a request and await its result model; CallError of the failed result, or as `send`."""
        async with self.send(function, data, **how) as pending:
            async for said in pending:
                on_progress(said)
            return await pending.result()

    @asynccontextmanager
    async def send(self, function: str, data: Data, **how: Unpack[How]) -> AsyncIterator[Pending]:
        """Store a request and listen for what becomes of it while the `with` lasts.

        FailedPrecondition when no stream takes it: then the function or the vCenter is unknown there.
        """
        vcenter = how.get("vcenter", self.vcenter)
        sent: How = {"source": self.source, **how}
        event = request_event(function, data, **sent)
        until = asyncio.get_running_loop().time() + how.get("timeout", _TIMEOUT)
        pending = Pending(self.connection, vcenter, event, until)
        try:
            async with AsyncExitStack() as heard:
                about = [
                    name(vcenter, function, pending.token) for name in (progress_subject, result_subject)
                ]
                line = queue_subject(vcenter, function)
                for subject, hear in (*((one, pending.hear) for one in about), (line, pending.hear_of_queue)):
                    heard.push_async_callback(_unsubscribe, await self.connection.subscribe(subject, cb=hear))
                requests = request_subject(vcenter, function)
                pending.sequence = await store(self.connection, requests, event, self.mode, until)
                yield pending
        except NatsError as error:
            raise _unavailable(error) from error

    async def _result(self, model: type[R], function: str, data: Data, how: Told) -> R:
        result = await self.request(function, data, **how)
        assert isinstance(result, model)
        return result


async def _connect(connection: Connection, url: str | list[str], options: Mapping[str, Any]) -> None:
    """Connect; nats-py would try for ever, and tell every failure to the log."""
    patient = {"max_reconnect_attempts": -1, "error_cb": _quiet, **options}
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await connection.connect(url, **patient)
    except TimeoutError:
        raise _unavailable(connection.last_error or "it does not answer") from None
    except (NatsError, OSError) as error:
        raise _unavailable(error) from error


async def _quiet(_error: Exception) -> None:
    """Say nothing: what matters is raised where it is waited for."""


async def _unsubscribe(subscription: Subscription) -> None:
    with suppress(NatsError):
        await subscription.unsubscribe()


def _unavailable(what: Exception | str) -> CallError:
    return CallError(Code.UNAVAILABLE, f"NATS: {str(what) or type(what).__name__}")


def _as_one(pages: Sequence[ListMachinesResult]) -> ListMachinesResult:
    return ListMachinesResult(
        machine_list={key: name for page in pages for key, name in page.machine_list.items()},
        creating=tuple(sorted({name for page in pages for name in page.creating})),
        copies=tuple(sorted({name for page in pages for name in page.copies})),
        unknown=tuple(sorted({name for page in pages for name in page.unknown})),
    )
