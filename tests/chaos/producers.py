"""Producers that send their part of a schedule and remember what they hear."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from chaos.schedule import PRODUCERS, Asked, Schedule, source_of
from vsphere_events.client import Client
from vsphere_events.client.storing import store
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.error import CallError
from vsphere_events.subjects import request_subject

WINDOW = 16
"""Requests that a producer has under way at most."""
AGAIN = 0.2
"""Seconds until a request is sent again that the producer could not place or lost sight of."""


@dataclass
class Sent:
    """A request on its way: what its stream said of it, and what came back, by the producer's monotonic clock."""

    asked: Asked
    stored_at: float | None = None
    answered_at: float | None = None
    answer: CloudEvent | None = None
    resent: int = 0


@dataclass
class Ledger:
    """All requests of a run; `stored` counts those that NATS has."""

    sent: dict[str, Sent] = field(default_factory=dict)
    stored: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def note_stored(self, one: Sent) -> None:
        """Count a request, once."""
        if one.stored_at is None:
            one.stored_at = time.monotonic()
            async with self.changed:
                self.stored += 1
                self.changed.notify_all()

    async def reached(self, count: int) -> None:
        """Wait until so many are stored."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.stored >= count)

    @property
    def answered(self) -> int:
        """How many have their answer."""
        return sum(one.answer is not None for one in self.sent.values())


async def produce_all(schedule: Schedule, urls: list[list[str]], ledger: Ledger) -> None:
    """Send everything and hear every answer; only a request that never ends keeps it."""
    ledger.sent.update({one.id: Sent(one) for one in schedule.requests})
    async with asyncio.TaskGroup() as group:
        for number in range(PRODUCERS):
            own = [ledger.sent[one.id] for one in schedule.requests if one.producer == number]
            group.create_task(_produce(urls[number], number, own, ledger))


async def _produce(urls: list[str], number: int, own: list[Sent], ledger: Ledger) -> None:
    under_way: set[asyncio.Task[None]] = set()
    options: dict[str, Any] = {"reconnect_time_wait": AGAIN, "connect_timeout": 2}
    async with (
        Client.connected(urls, source=source_of(number), **options) as client,
        asyncio.TaskGroup() as group,
    ):
        for one in own:
            while len(under_way) >= (1 if one.asked.waits else WINDOW):
                _, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            placed = asyncio.Event()
            under_way.add(group.create_task(_ask(client, one, ledger, placed)))
            await placed.wait()


async def _ask(client: Client, one: Sent, ledger: Ledger, placed: asyncio.Event) -> None:
    """Send a request under its id until an answer is heard."""
    asked = one.asked
    while one.answer is None:
        try:
            async with client.send(asked.function, asked.data, id=asked.id) as pending:
                await ledger.note_stored(one)
                placed.set()
                if asked.twice and not one.resent:
                    subject = request_subject("default", asked.function)
                    await store(
                        client.connection, subject, pending.request, client.mode, time.monotonic() + 60
                    )
                one.answer = await pending.event()
                one.answered_at = time.monotonic()
        except CallError:
            await asyncio.sleep(AGAIN)
        one.resent += 1
