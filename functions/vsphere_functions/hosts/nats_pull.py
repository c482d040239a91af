"""Ask a consumer for as many requests as there are free slots, never more: what is prefetched runs twice."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from vsphere_functions.hosts.nats_calls import Calls, answer_of, status_of
from vsphere_functions.hosts.nats_names import REQUESTS
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.store import StoreError

_EXPIRES = 30.0
_NOT_ASKED = "not asked yet"
_IDLE = 5.0  # seconds between the server's signs of life while nothing comes

Handle = Callable[[Msg], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Room:
    """How many requests of a consumer run at once; `pause` is the seconds between two looks for one that is gone."""

    slots: int
    pause: float = 2.0


class Pull:
    """The requests of one consumer, each handed to `handle` in a task of its own.

    `problem` says why nothing can come at present, or is None.
    """

    def __init__(self, client: Client, calls: Calls, durable: str, handle: Handle, room: Room) -> None:
        self._client = client
        self._calls = calls
        self._durable = durable
        self._room = room
        self._handle = handle
        self._inbox = client.new_inbox()
        self._asked: dict[str, int] = {}
        self._counter = 0
        self._heard = time.monotonic()
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None
        self.running: set[asyncio.Task[None]] = set()
        self.problem: str | None = _NOT_ASKED

    async def run(self) -> None:
        """Ask, and ask again as slots come free, until cancelled."""
        self._subscription = await self._client.subscribe(f"{self._inbox}.*", cb=self._received)
        while True:
            if self.problem is not None or time.monotonic() - self._heard > 3 * _IDLE:
                await self._look()
            else:
                await self._ask()
                await self._woken(_IDLE)

    async def stop(self) -> None:
        """Take no more; what runs goes on."""
        if self._subscription and not self._client.is_closed:
            await self._subscription.unsubscribe()
        self._subscription = None

    def forget(self) -> None:
        """Drop what was asked over a connection that is gone."""
        self._asked.clear()
        self._heard = time.monotonic()
        self._changed.set()

    async def _look(self) -> None:
        """See whether the consumer is there; only then ask, or each answer would be the next question."""
        if self.problem not in {None, _NOT_ASKED}:
            await asyncio.sleep(self._room.pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads the looks
        try:
            answer_of(await self._calls.ask(f"$JS.API.CONSUMER.INFO.{REQUESTS}.{self._durable}"))
        except StoreError as error:
            self.problem = f"consumer {self._durable}: {error}"
        else:
            self.problem = None
            self.forget()

    async def _ask(self) -> None:
        free = self._room.slots - len(self.running) - sum(self._asked.values())
        if free <= 0 or not self._client.is_connected:
            return
        self._counter += 1
        token = str(self._counter)
        self._asked[token] = free
        asked = {"batch": free, "expires": int(_EXPIRES * 1e9), "idle_heartbeat": int(_IDLE * 1e9)}
        await self._client.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.{self._durable}",
            json.dumps(asked).encode(),
            reply=f"{self._inbox}.{token}",
        )

    async def _woken(self, seconds: float) -> None:
        timer = asyncio.get_running_loop().call_later(seconds, self._changed.set)
        await self._changed.wait()
        timer.cancel()
        self._changed.clear()

    async def _received(self, message: Msg) -> None:
        self._heard = time.monotonic()
        if not message.reply:  # a request has one, to be acknowledged by; a header `Status` anybody can write
            self._told(message)
            return
        token = next(iter(self._asked), None)  # the oldest is served first
        if token is not None:
            self._asked[token] -= 1
            if self._asked[token] == 0:
                del self._asked[token]
        if len(self.running) >= self._room.slots:
            await self._client.publish(message.reply, b"-NAK")  # of a request that we had given up
            return
        task = asyncio.create_task(self._handled(message))
        self.running.add(task)

    async def _handled(self, message: Msg) -> None:
        try:
            await self._handle(message)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self.running.discard(task)
            self._changed.set()

    def _told(self, message: Msg) -> None:
        """Read a status: the end of a request, or a sign of life (100)."""
        status, token = status_of(message), message.subject.rpartition(".")[2]
        if status == "100":
            return
        self._asked.pop(token, None)
        description = (message.headers or {}).get("Description", "")
        if status == "503" or "Deleted" in description or status == "404":
            if self.problem is None:
                telemetry.log().warning("consumer is gone", consumer=self._durable)
            self.problem = f"consumer {self._durable}: {description or 'nobody answers'}"
        self._changed.set()
