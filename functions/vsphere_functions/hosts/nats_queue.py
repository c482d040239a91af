"""How far each function's queue has come, told to whoever waits for a place in it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_events import json_text
from vsphere_events.queue import QueueState
from vsphere_events.subjects import Subject, queue_subject
from vsphere_functions.hosts.nats_calls import Calls, answer_of
from vsphere_functions.hosts.nats_names import REQUESTS, consumer_name
from vsphere_functions.runtime.store import StoreError

_EVERY = 1.0  # seconds between two messages on a subject
_GRACE = 1.0  # seconds: a request that has not come back by then has gone to another worker


class _Queue:
    """A function's requests as this worker sees them: how many are at hand, and which are put off."""

    def __init__(self) -> None:
        self.at_hand = 0
        self.put_off: dict[int, float] = {}

    def state(self, info: Mapping[str, Any], now: float) -> QueueState:
        """Put what the consumer says beside what is known here.

        Where other workers hold requests, nobody knows which of them are begun: then what is acknowledged counts.
        """
        for sequence in [one for one, back_by in self.put_off.items() if back_by < now]:
            del self.put_off[sequence]
        unanswered = info["num_ack_pending"]
        waiting = max(info["num_pending"] + unanswered - self.at_hand, 0)
        reached = info["delivered"]["stream_seq"]
        if waiting and unanswered != self.at_hand + len(self.put_off):
            reached = info["ack_floor"]["stream_seq"]
        elif self.put_off:
            reached = min(self.put_off) - 1
        return QueueState(sequence=reached, waiting=waiting)


class Queues:
    """Says once a second at most, and as long as something waits, how far each queue has come."""

    def __init__(self, client: Client, calls: Calls, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._calls = calls
        self._clock = clock
        self._queues: dict[Subject, _Queue] = {}
        self._changed: set[Subject] = set()

    def came(self, subject: Subject, sequence: int) -> None:
        """Note that a request is at hand."""
        queue = self._queues.setdefault(subject, _Queue())
        queue.at_hand += 1
        queue.put_off.pop(sequence, None)
        self._changed.add(subject)

    def went(self, subject: Subject) -> None:
        """Note that a request is at hand no more."""
        self._queues[subject].at_hand -= 1
        self._changed.add(subject)

    def put_off(self, subject: Subject, sequence: int, seconds: float) -> None:
        """Note that a request was not begun, and waits for so long."""
        self._queues[subject].put_off[sequence] = self._clock() + seconds + _GRACE

    async def tell(self) -> None:
        """Speak until cancelled."""
        while True:
            await asyncio.sleep(_EVERY)
            changed, self._changed = self._changed, set()
            for subject in changed:
                with suppress(NatsError, StoreError):
                    await self._say(subject, self._queues[subject])

    async def _say(self, subject: Subject, queue: _Queue) -> None:
        durable = consumer_name(subject.vcenter, subject.function)
        info = answer_of(await self._calls.ask(f"$JS.API.CONSUMER.INFO.{REQUESTS}.{durable}"))
        said = queue.state(info, self._clock())
        if said.waiting:
            self._changed.add(subject)
        place = queue_subject(subject.vcenter, subject.function)
        await self._client.publish(place, json_text.dumps(said.wire()))
