"""A request that is stored and not answered yet."""

import asyncio
from contextlib import suppress
from typing import Any, Self

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from pydantic import ValidationError

from vsphere_events.client.events import result_of
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Received, from_nats
from vsphere_events.error import CallError
from vsphere_events.json_text import loads
from vsphere_events.outcome import Progress
from vsphere_events.queue import QueueState
from vsphere_events.subjects import Kind, parse_event_type, request_token, result_subject

RESULTS = "VSPHERE_RESULTS"

_LOOK_SECONDS = 10.0
_TICK_SECONDS = 1.0


class Pending:
    """A request that is stored: iterate over its progress, then take its result. For one reader."""

    def __init__(self, connection: Connection, vcenter: str, request: CloudEvent, until: float) -> None:
        self.request = request
        self.vcenter = vcenter
        self.function, _ = parse_event_type(request.type)
        self._connection = connection
        self._until = until
        self.sequence = 0
        self._queue: QueueState | None = None
        self._heard: asyncio.Queue[CloudEvent] = asyncio.Queue()
        self._answer: CloudEvent | None = None
        self._looked = asyncio.get_running_loop().time(), connection.stats["reconnects"]

    @property
    def token(self) -> str:
        """The last token of the subjects of its progress and result."""
        return request_token(self.request.id)

    @property
    def ahead(self) -> int | None:
        """How many requests are before this one, at most; None once it has begun, or while nobody waits."""
        return self._queue.ahead_of(self.sequence) if self._queue and self.sequence else None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Progress:
        """Give what is said on the way; ends when the result is there. DeadlineExceeded when none comes."""
        while self._answer is None:
            event = await self._next()
            if parse_event_type(event.type)[1] is not Kind.PROGRESS:
                self._answer = event
                break
            with suppress(ValidationError):
                return Progress.model_validate(event.data, by_alias=True, extra="ignore")
        raise StopAsyncIteration

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

    async def hear_of_queue(self, message: Msg) -> None:
        """Take what a worker says of the requests that wait."""
        with suppress(CallError, ValueError):
            self._queue = QueueState.parse(loads(message.data))

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
