"""The producers' client: send a request over NATS, follow its progress, await its result.

The only module of this package that does I/O. It relies on streams that `vsphere-functions setup` has made.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Self, TypedDict, Unpack
from uuid import uuid4

import nats
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError
from pydantic import ValidationError

from vsphere_events.cloud_event import Attribute, CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, Received, from_nats, to_nats
from vsphere_events.error import CallError, Detail
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import CreateMachineResult, DeleteMachineResult, GetMachineStatusResult
from vsphere_events.model import Result
from vsphere_events.outcome import Failure, Progress
from vsphere_events.subjects import (
    Kind,
    event_type,
    parse_event_type,
    progress_subject,
    request_subject,
    request_token,
    result_subject,
)

SOURCE = "/producers/vsphere-events"
RESULTS = "VSPHERE_RESULTS"

_ACK_SECONDS = 5.0
_ACK_TRIES = 3
_ELECTION_SECONDS = 2.0  # while a stream elects its leader nobody answers for it
_LOOK_SECONDS = 10.0
_TICK_SECONDS = 1.0


class How(TypedDict, total=False):
    """How a request is sent: what every method takes beside its data.

    `timeout` in seconds. A request sent again under its `id` and `source` gets the first answer again.
    """

    vcenter: str
    id: str
    source: str
    timeout: float
    extensions: Mapping[str, Attribute]


class Pending:
    """A request that is stored: iterate over its progress, then take its result. For one reader."""

    def __init__(self, connection: Connection, vcenter: str, request: CloudEvent, until: float) -> None:
        self.request = request
        self.vcenter = vcenter
        self.function, _ = parse_event_type(request.type)
        self._connection = connection
        self._until = until
        self._heard: asyncio.Queue[CloudEvent] = asyncio.Queue()
        self._answer: CloudEvent | None = None
        self._looked = asyncio.get_running_loop().time(), connection.stats["reconnects"]

    @property
    def token(self) -> str:
        """The last token of the subjects of its progress and result."""
        return request_token(self.request.id)

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """Yield what is said on the way; ends when the result is there. DeadlineExceeded when none comes."""
        while self._answer is None:
            event = await self._next()
            if parse_event_type(event.type)[1] is not Kind.PROGRESS:
                self._answer = event
                continue
            with suppress(ValidationError):
                yield Progress.model_validate(event.data, by_alias=True, extra="ignore")

    async def event(self) -> CloudEvent:
        """Await the result event, succeeded or failed."""
        async for _ in self:
            pass
        assert self._answer is not None
        return self._answer

    async def result(self) -> Any:
        """Await the function's result model; the failed result is raised as a CallError."""
        return result_of(self.function, await self.event())

    async def hear(self, message: Msg) -> None:
        """Take a message if it is an event about this request; another source's answers are dropped."""
        if event := self._own(message):
            self._heard.put_nowait(event)

    def _own(self, message: Msg) -> CloudEvent | None:
        with suppress(CallError):
            received = from_nats(message.headers, message.data)
            if isinstance(received, Received):
                event = received.event
                about = event.extension("causationid"), event.extension("causationsource")
                function, kind = parse_event_type(event.type)
                known = kind is not Kind.REQUEST and function == self.function
                return event if known and about == (self.request.id, self.request.source) else None
        return None

    async def _next(self) -> CloudEvent:
        clock = asyncio.get_running_loop().time
        while (left := self._until - clock()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, _TICK_SECONDS)):
                    return await self._heard.get()
            now = clock(), self._connection.stats["reconnects"]
            if now[1] != self._looked[1] or now[0] - self._looked[0] >= _LOOK_SECONDS:
                self._looked = now
                if stored := await self._stored():
                    return stored
        raise CallError(Code.DEADLINE_EXCEEDED, "no result yet; the same id and source ask for it again")

    async def _stored(self) -> CloudEvent | None:
        """Read the last result from the stream, for an answer that was published while nobody listened."""
        subject = result_subject(self.vcenter, self.function, self.token)
        with suppress(NatsError):
            return self._own(
                await self._connection.request(f"$JS.API.DIRECT.GET.{RESULTS}.{subject}", timeout=5)
            )
        return None


class Client:
    """Sends requests over one connection, which stays its owner's; `source` names the producer in its events.

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
        cls, url: str, *, source: str = SOURCE, vcenter: str = "default", **options: Any
    ) -> AsyncIterator[Self]:
        """Connect for the time of a `with`; `options` are those of `nats.connect`."""
        connection = await nats.connect(url, **{"max_reconnect_attempts": -1, **options})
        try:
            yield cls(connection, source=source, vcenter=vcenter)
        finally:
            await connection.close()

    async def create_machine(self, data: Mapping[str, Any], **how: Unpack[How]) -> CreateMachineResult:
        """Make a machine, or finish the one that an earlier request began."""
        made: CreateMachineResult = await self.request("create_machine", data, **how)
        return made

    async def delete_machine(self, data: Mapping[str, Any], **how: Unpack[How]) -> DeleteMachineResult:
        """Delete a machine; what it was not born with survives it."""
        deleted: DeleteMachineResult = await self.request("delete_machine", data, **how)
        return deleted

    async def get_machine_status(self, data: Mapping[str, Any], **how: Unpack[How]) -> GetMachineStatusResult:
        """Say how a machine is."""
        status: GetMachineStatusResult = await self.request("get_machine_status", data, **how)
        return status

    async def request(
        self,
        function: str,
        data: Mapping[str, Any],
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
    async def send(
        self, function: str, data: Mapping[str, Any], **how: Unpack[How]
    ) -> AsyncIterator[Pending]:
        """Store a request and listen for what becomes of it while the `with` lasts.

        FailedPrecondition when no stream takes it: then the function or the vCenter is unknown there.
        """
        vcenter = how.get("vcenter", self.vcenter)
        sent: How = {"source": self.source, **how}
        event = request_event(function, data, **sent)
        until = asyncio.get_running_loop().time() + how.get("timeout", 3600.0)
        pending = Pending(self.connection, vcenter, event, until)
        try:
            heard = [
                await self.connection.subscribe(name(vcenter, function, pending.token), cb=pending.hear)
                for name in (progress_subject, result_subject)
            ]
            try:
                await self._store(request_subject(vcenter, function), event, until)
                yield pending
            finally:
                for subscription in heard:
                    with suppress(NatsError):
                        await subscription.unsubscribe()
        except NatsError as error:
            raise CallError(Code.UNAVAILABLE, f"NATS: {str(error) or type(error).__name__}") from error

    async def _store(self, subject: str, event: CloudEvent, until: float) -> None:
        """Publish until the stream confirms; without a message id, or a wanted resend would be swallowed."""
        headers, body = to_nats(event, self.mode)
        _check_size(headers, body, self.connection.max_payload)
        clock, silent = asyncio.get_running_loop().time, 0
        elected = clock() + _ELECTION_SECONDS
        while True:
            try:
                answer = await self.connection.request(subject, body, timeout=_ACK_SECONDS, headers=headers)
            except NoRespondersError:
                if clock() > elected:
                    raise _nobody(subject) from None
                await asyncio.sleep(0.2)
            except NatsTimeoutError:
                silent += self.connection.is_connected  # an outage says nothing about the stream
                if silent == _ACK_TRIES or clock() > until:
                    raise CallError(
                        Code.UNAVAILABLE, f"NATS does not confirm a request on {subject}"
                    ) from None
            else:
                _check_stored(answer, subject)
                return


def request_event(function: str, data: Mapping[str, Any], **how: Unpack[How]) -> CloudEvent:
    """Make the event of a request, under a fresh id unless one is given."""
    return CloudEvent(
        id=how.get("id") or str(uuid4()),
        source=how.get("source", SOURCE),
        type=event_type(function, Kind.REQUEST),
        time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        data=dict(data),
        extensions=how.get("extensions", {}),
    )


def result_of(function: str, event: CloudEvent) -> Any:
    """Read a result event: the function's result model; the failed one is raised as a CallError.

    Fields of a newer contract are ignored. Internal when the event has another shape.
    """
    failed = parse_event_type(event.type)[1] is Kind.FAILED
    model: type[Result] = Failure if failed else FUNCTIONS[function].result
    try:
        found = model.model_validate(event.data, by_alias=True, extra="ignore")
    except ValidationError:
        raise CallError(Code.INTERNAL, f"the result of {function} does not have its shape") from None
    if isinstance(found, Failure):
        raise _error_of(found)
    return found


def _error_of(failure: Failure) -> CallError:
    said = failure.error
    return CallError(
        said.code,
        said.message,
        details=[Detail(one.reason, one.field, one.candidates or ()) for one in said.details],
        provider_id=failure.provider_id,
        node_name=failure.node_name,
        last_known_state=failure.last_known_state,
    )


def _check_size(headers: Mapping[str, str], body: bytes, limit: int) -> None:
    """Refuse what the server would cut the connection for."""
    size = len(body) + sum(len(name) + len(value) + 4 for name, value in headers.items()) + 12
    if size > limit:
        raise CallError(
            Code.INVALID_ARGUMENT, f"a request of {size} bytes is over the server's limit of {limit}"
        )


def _check_stored(answer: Msg, subject: str) -> None:
    said: Any = None
    with suppress(ValueError):
        said = json.loads(answer.data)
    if isinstance(said, dict) and isinstance(error := said.get("error"), dict):
        code = Code.INVALID_ARGUMENT if error.get("code") == 400 else Code.UNAVAILABLE
        raise CallError(code, f"NATS does not store the request: {error.get('description')}")
    if not isinstance(said, dict) or "stream" not in said:
        raise _nobody(subject)


def _nobody(subject: str) -> CallError:
    return CallError(
        Code.FAILED_PRECONDITION,
        f"no stream takes {subject}, so nothing was stored: the function or the vCenter is unknown there, "
        "or `vsphere-functions setup` has not run",
    )
