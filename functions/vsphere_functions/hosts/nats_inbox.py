"""What becomes of a message from the requests' stream: read, performed, answered, acknowledged."""

import asyncio
import json
import random
from collections import Counter
from functools import cache

from nats.aio.client import Client
from nats.aio.msg import Msg

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Batch, Mode, Received, from_nats, to_nats
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Subject, parse_event_type, request_subject
from vsphere_functions.hosts.nats_calls import Calls, NoStreamError, size_of
from vsphere_functions.hosts.nats_names import ROOM_FOR_DEAD_LETTER_HEADERS
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.hosts.nats_queue import Queues
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.claims import letter_written
from vsphere_functions.runtime.delivery import Bury, Case, Retry, Trouble, decide
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.operations import Foreign
from vsphere_functions.runtime.perform import Again, DeadLetter, Delivery, Desk, Ending, Finished
from vsphere_functions.runtime.store import StoreError

_LONGEST_ATTRIBUTES = 16 * 1024  # bytes of id and source: each result carries them more than once
_MESSAGE_ID = 128  # bytes of the header that an event of a batch gets


class Inbox:
    """Handles messages; each keeps giving signs of life until it is settled.

    `problem` says why the last one could not be recorded or answered, or is None.
    """

    def __init__(self, client: Client, calls: Calls, desk: Desk, outbox: Outbox) -> None:
        self._client = client
        self._calls = calls
        self._desk = desk
        self._outbox = outbox
        self._alive: set[str] = set()
        self.queues = Queues(client, calls)
        self._broken: Counter[int] = Counter()
        self.problem: str | None = None

    async def beat(self, every: float) -> None:
        """Tell the server of everything at hand that it is being worked on, until cancelled."""
        while True:
            await asyncio.sleep(every)
            for reply in list(self._alive):
                if self._client.is_connected:
                    await self._client.publish(reply, b"+WPI")

    async def handle(self, message: Msg) -> None:
        """Take a message to its acknowledgement; one that is left alone comes again after ack_wait."""
        if self._desk.stopping.is_set():
            await self._settle(message, b"-NAK")
            return
        self._alive.add(message.reply)
        subject = _parsed(message.subject)
        self.queues.came(subject, message.metadata.sequence.stream)
        try:
            await self._received(message, subject)
            self._broken.pop(message.metadata.sequence.stream, None)
            self.problem = None
        except StoreError as error:
            self.problem = str(error)
            telemetry.log().warning("a request is put off", reason=str(error))
            await self._because(message, subject, Trouble.NO_RECORDS, CallError(Code.UNAVAILABLE, str(error)))
        except Exception:  # noqa: BLE001 - one message must not end the worker; it is delivered again
            telemetry.log().exception("a request could not be handled")
            await self._broken_down(message, subject)
        finally:
            self._alive.discard(message.reply)
            self.queues.went(subject)

    async def _received(self, message: Msg, subject: Subject) -> None:
        try:
            received = from_nats(message.headers, message.data)
            _check_length(received)
            _check_sizes(received, self._client.max_payload - ROOM_FOR_DEAD_LETTER_HEADERS)
        except CallError as error:
            await self._because(message, subject, Trouble.UNREADABLE, error)
            return
        if isinstance(received, Batch):
            await self._take_apart(message, subject, received)
            return
        await self._perform(
            message, Address(FUNCTIONS[subject.function], subject.vcenter, received.event), received.mode
        )

    async def _because(
        self,
        message: Msg,
        subject: Subject,
        trouble: Trouble,
        error: CallError,
        attempt: int = 1,
        *,
        request: str | None = None,
    ) -> None:
        """Do what is decided about a message that is not tried."""
        jitter = random.random()  # noqa: S311 - spreads what comes again
        decision = decide(trouble, Case(self._desk.settings.limits, attempt=attempt, jitter=jitter))
        if isinstance(decision, Retry):
            await self._later(message, decision.delay)
        elif isinstance(decision, Bury):
            await self._bury(message, subject, error, request)

    async def _broken_down(self, message: Msg, subject: Subject) -> None:
        """Dead-letter a message that has met too many unexpected errors here, or it would come back for ever."""
        sequence = message.metadata.sequence.stream
        self._broken[sequence] += 1
        error = CallError(Code.INTERNAL, "an unexpected error, each time")
        try:
            await self._because(message, subject, Trouble.UNEXPECTED, error, self._broken[sequence])
        except Exception:  # noqa: BLE001 - then it does come back
            telemetry.log().exception("a request could not be dead-lettered")
        else:
            if self._broken[sequence] >= self._desk.settings.limits.attempts:
                del self._broken[sequence]

    async def _perform(self, message: Msg, address: Address, mode: Mode) -> None:
        known = message.metadata
        delivery = Delivery(known.sequence.stream, known.timestamp, first=known.num_delivered == 1)

        def tell(event: CloudEvent) -> None:
            self._desk.aside(self._outbox.progress(address, event, mode))

        ending = await perform(self._desk, address, delivery, tell)
        await self._conclude(message, address, mode, ending)

    async def _conclude(self, message: Msg, address: Address, mode: Mode, ending: Ending) -> None:
        match ending:
            case Finished():
                await self._finish(message, address, mode, ending)
            case Foreign(reason):
                error = CallError(Code.INVALID_ARGUMENT, reason)
                await self._because(message, _subject(address), Trouble.FOREIGN, error, request=address.token)
            case Again(delay, begun=begun):
                if not begun:
                    self.queues.put_off(_subject(address), message.metadata.sequence.stream, delay)
                await self._later(message, delay)
            case _:
                telemetry.log().warning("another worker has taken over", request=address.token)
                error = CallError(Code.ABORTED, Trouble.TAKEN_OVER.value)
                await self._because(message, _subject(address), Trouble.TAKEN_OVER, error)

    async def _finish(self, message: Msg, address: Address, mode: Mode, ending: Finished) -> None:
        """Dead letter, result, acknowledgement, in this order; what is cut short is done again from the record."""
        if letter := ending.dead:
            await self._dead(message, _subject(address), letter, f"{address.key}.{letter.generation}")
            await letter_written(self._desk.store, address.key, letter.generation)
        await self._outbox.result(address, ending, mode)
        await self._settle(message, b"+ACK")

    async def _bury(self, message: Msg, subject: Subject, error: CallError, request: str | None) -> None:
        """Dead-letter what nobody must hear of, or nobody could; `request` is its token, where it has one."""
        known = {"request": request} if request else {}
        telemetry.log().warning(
            "a request is dead-lettered",
            **known,
            function=subject.function,
            vcenter=subject.vcenter,
            sequence=message.metadata.sequence.stream,
            reason=error.message,
        )
        letter = DeadLetter(error.code, error.message, message.metadata.num_delivered)
        await self._dead(message, subject, letter, f"seq.{message.metadata.sequence.stream}")
        await self._settle(message, b"+ACK")

    async def _dead(self, message: Msg, subject: Subject, letter: DeadLetter, message_id: str) -> None:
        original = (message.headers or {}, message.data)
        where = (subject.vcenter, subject.function)
        sequence = message.metadata.sequence.stream
        await self._outbox.dead(where, original, letter, sequence=sequence, message_id=message_id)

    async def _take_apart(self, message: Msg, subject: Subject, batch: Batch) -> None:
        """Publish each event of a batch to its own subject, in order, then acknowledge the batch."""
        for at, event in enumerate(batch.events):
            headers, body = to_nats(event, Mode.STRUCTURED)
            headers["Nats-Msg-Id"] = f"batch.{message.metadata.sequence.stream}.{at}"
            try:
                function, _ = parse_event_type(event.type)
                await self._calls.publish(request_subject(subject.vcenter, function), body, headers)
            except (CallError, NoStreamError):
                letter = DeadLetter(Code.INVALID_ARGUMENT, f"event {at} of a batch has no such function", 1)
                where, sequence = (subject.vcenter, subject.function), message.metadata.sequence.stream
                await self._outbox.dead(
                    where, (headers, body), letter, sequence=sequence, message_id=headers["Nats-Msg-Id"]
                )
        await self._settle(message, b"+ACK")

    async def _settle(self, message: Msg, word: bytes) -> None:
        """Answer the server and wait until it has heard; unheard, the message comes again and is replayed."""
        try:
            await self._calls.ask(message.reply, word)
        except StoreError as error:
            telemetry.log().warning("an acknowledgement was not confirmed", reason=str(error))

    async def _later(self, message: Msg, delay: float) -> None:
        self._alive.discard(message.reply)  # a sign of life after the nak would call it off
        await self._settle(message, b"-NAK " + json.dumps({"delay": int(delay * 1e9)}).encode())


@cache
def _parsed(subject: str) -> Subject:
    """Read a subject; there are as many as consumers."""
    return Subject.parse(subject)


def _subject(address: Address) -> Subject:
    return _parsed(request_subject(address.label, address.function.name))


def _check_sizes(received: Received | Batch, largest: int) -> None:
    """Refuse a batch with an event that has no place in a message of its own: written anew, numbers can grow."""
    for event in received.events if isinstance(received, Batch) else ():
        headers, body = to_nats(event, Mode.STRUCTURED)
        if size_of(headers, body) + _MESSAGE_ID > largest:
            raise CallError(
                Code.INVALID_ARGUMENT, "an event of the batch is too big for a message of its own"
            )


def _check_length(received: Received | Batch) -> None:
    events = received.events if isinstance(received, Batch) else (received.event,)
    if any(len(event.id) + len(event.source) > _LONGEST_ATTRIBUTES // 4 for event in events):
        raise CallError(Code.INVALID_ARGUMENT, "id and source are too long to be answered")
