"""A producer and workers on a real NATS server, in the test's own event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from support.functions import World, settings
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, Received, from_nats, to_nats
from vsphere_events.subjects import parse_event_type, request_subject, request_token, result_subject
from vsphere_functions.hosts.jetstream import Worker
from vsphere_functions.hosts.nats_names import REQUESTS, RESULTS
from vsphere_functions.hosts.nats_setup import set_up
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.settings import Nats, Settings
from vsphere_functions.runtime.settings import Worker as WorkerSection

LEFT = "ignore::pytest.PytestUnraisableExceptionWarning"
"""A filter for tests of refused connections: nats-py leaves them to the collector, which the test lets run."""


def on(server: NatsServer, *, slots: int = 4, ack_wait: float = 2, **limits: Any) -> Settings:
    return settings(**limits).model_copy(
        update={
            "nats": Nats(url=(server.url,), ack_wait_seconds=ack_wait),
            "worker": WorkerSection(slots=slots, health_host="127.0.0.1", health_port=0, drain_seconds=5),
        }
    )


async def until(true: Callable[[], Any | Awaitable[Any]], seconds: float = 50) -> Any:
    """Poll until something is true, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        found = true()
        found = await found if isinstance(found, Awaitable) else found
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.01)


class Producer:
    """Publishes requests and reads what came of them; `heard` are all messages seen on results and dead letters."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.js = client.jetstream(timeout=20)
        self.heard: list[Msg] = []

    async def listen(self) -> None:
        async def hear(message: Msg) -> None:
            self.heard.append(message)

        for subject in ("vsphere.result.>", "vsphere.dead.>", "vsphere.progress.>"):
            await self.client.subscribe(subject, cb=hear)

    async def publish(self, event: CloudEvent, mode: Mode = Mode.BINARY, label: str = "default") -> int:
        headers, body = to_nats(event, mode)
        return await self.raw(request_subject(label, parse_event_type(event.type)[0]), body, headers)

    async def raw(self, subject: str, body: bytes, headers: dict[str, str] | None = None) -> int:
        return (await self.js.publish(subject, body, headers=headers)).seq

    async def stored(self, event: CloudEvent) -> CloudEvent | None:
        """The result in the stream, or None while there is none."""
        subject = result_subject("default", parse_event_type(event.type)[0], request_token(event.id))
        try:
            message = await self.js.get_last_msg(RESULTS, subject)
        except NotFoundError:
            return None
        received = from_nats(message.headers, message.data or b"")
        assert isinstance(received, Received)
        return received.event

    async def result(self, event: CloudEvent, seconds: float = 50) -> CloudEvent:
        found = await until(lambda: self.stored(event), seconds)
        assert isinstance(found, CloudEvent)
        return found

    async def ask(self, event: CloudEvent, mode: Mode = Mode.BINARY) -> CloudEvent:
        await self.publish(event, mode)
        return await self.result(event)

    async def waiting(self) -> int:
        """How many requests are not acknowledged yet."""
        return (await self.js.stream_info(REQUESTS)).state.messages

    async def settled(self, seconds: float = 50) -> None:
        async def none_left() -> bool:
            return await self.waiting() == 0

        await until(none_left, seconds)

    def heard_of_progress(self, times: int) -> bool:
        return len(self.on("progress")) >= times

    def on(self, channel: str) -> list[Msg]:
        """The messages heard on a channel, self-checks and queue states left out."""
        return [
            one
            for one in self.heard
            if one.subject.startswith(f"vsphere.{channel}.")
            and not one.subject.endswith((".self-check", "._queue"))
            and one.data
        ]


def ready(worker: Worker) -> bool:
    """Whether requests can come; the vCenters of these tests never answer."""
    return "nats" not in worker.problems()


@asynccontextmanager
async def producer(server: NatsServer, configured: Settings) -> AsyncIterator[Producer]:
    """Set the server up, and connect."""
    client = await nats.connect(server.url, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    try:
        await set_up(client, configured)
        one = Producer(client)
        await one.listen()
        yield one
    finally:
        await client.close()


@asynccontextmanager
async def working(configured: Settings, world: World, count: int = 1) -> AsyncIterator[list[Worker]]:
    """Run workers until the block ends; they are ready."""
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(starting(configured, world)) for _ in range(count)]
        for one in workers:
            await until(partial(ready, one))
        yield workers


@asynccontextmanager
async def starting(configured: Settings, world: World) -> AsyncIterator[Worker]:
    """Run a worker until the block ends, ready or not; its health answers."""
    one = Worker(configured, world.catalogue(), world.undos())
    task = asyncio.create_task(one.run())
    try:
        await until(lambda: one.port)
        yield one
    finally:
        one.end()
        assert await task == 0
