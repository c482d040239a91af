"""Send a dead letter's request again: its record is opened for the next generation, then the request published."""

from datetime import UTC, datetime

from vsphere_events.code import Code
from vsphere_events.envelope import from_json, to_nats
from vsphere_events.error import CallError
from vsphere_events.subjects import request_subject, result_subject
from vsphere_functions.hosts.dead_letters import DeadLetters, Letter
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import WRONG_LAST_SEQUENCE, RefusedError, answer_of, status_of
from vsphere_functions.hosts.nats_names import RESULTS
from vsphere_functions.runtime.dispatch import Address, address_of
from vsphere_functions.runtime.operations import Record, State, redriven
from vsphere_functions.runtime.store import Bucket, StoreError

_ROUNDS = 5  # of reading and being overtaken


async def redrive(letters: DeadLetters, letter: Letter) -> int:
    """Send a letter's request again, then remove the letter; the generation that it is now.

    FailedPrecondition, with the reason, for what would only come back or has ended otherwise. Cut short anywhere, or
    done twice, it comes to the same: the record says how far it went, and a request that is published twice is one.
    """
    address = _address(letter)
    record = await _Redrive(letters, letter, address).open() if address.function.changes else None
    # The stream's window for equal ids does not swallow it: a later generation has a letter, and an id, of its own.
    headers = {**letter.headers, "Nats-Msg-Id": f"redrive.{letter.message_id}"}
    await letters.calls.publish(request_subject(address.label, address.function.name), letter.body, headers)
    await letters.remove([letter.number])
    return record.generation if record else 0


def _address(letter: Letter) -> Address:
    """Name what is to be sent; FailedPrecondition for what would be refused again."""
    event, reason = letter.event, letter.said["reason"]
    if event is None:
        raise _refused(f"nobody can read it: {reason}")
    if letter.code == Code.INVALID_ARGUMENT:
        raise _refused(f"it would be refused again: {reason}")
    return address_of(letter.subject.function, letter.subject.vcenter, event)


class _Redrive:
    """The record of a letter's request, on its way to the next generation."""

    def __init__(self, letters: DeadLetters, letter: Letter, address: Address) -> None:
        self._calls = letters.calls
        self._letter = letter
        self._address = address
        self._store = KvStore(letters.calls)

    async def open(self) -> Record:
        """Have the record say that the request is to be tried anew."""
        for _ in range(_ROUNDS):
            entry = await self._store.get(Bucket.OPERATIONS, self._address.key)
            known = Record.load(entry.value) if entry else None
            wanted = await (self._again(known) if known else self._anew())
            self._check_time(wanted)
            if known == wanted:
                return wanted
            revision = entry.revision if entry else 0
            if await self._store.update(Bucket.OPERATIONS, self._address.key, wanted.dump(), revision):
                return wanted
        raise _refused("its record changes all the time; something works on it")

    def _check_time(self, wanted: Record) -> None:
        """Refuse what would not be begun any more; what is to be undone is, however late."""
        expires = self._address.expires
        if expires is not None and datetime.now(UTC) >= expires and not wanted.canceling:
            raise _refused("its expirytime has passed; ask for it under a new id")

    async def _again(self, record: Record) -> Record:
        event = self._letter.event
        assert event
        if (record.source, record.id) != (event.source, event.id):
            raise _refused("another request has its token")
        if not self._has_record:
            if record.final:
                raise _refused(f"it has ended since: {record.state}")
            return record
        last = 0
        if record.state is State.DEAD and record.generation == self._letter.generation:
            last = await self._publish(record)
        return redriven(record, self._letter.generation, last)

    async def _anew(self) -> Record:
        """Write the record of a request that has none, or none any more: the letter knows its place in the order."""
        event = self._letter.event
        assert event
        return Record(
            source=event.source,
            id=event.id,
            sequence=self._letter.sequence,
            generation=self._letter.generation + self._has_record,
            expects=await self._last(),
        )

    @property
    def _has_record(self) -> bool:
        return self._letter.message_id == f"{self._address.key}.{self._letter.generation}"

    async def _publish(self, record: Record) -> int:
        """Publish the recorded failure, as a worker does that finds it; later it would take the next one's place.

        The sequence of the last result, which is it or what stands there already: the stream's leader tells, while a
        copy that is read can lag behind.
        """
        assert record.result is not None
        assert self._letter.received
        headers, body = to_nats(from_json(record.result), self._letter.received.mode)
        headers["Nats-Expected-Last-Subject-Sequence"] = str(record.expects)
        try:
            return await self._calls.publish(self._subject, body, headers)
        except RefusedError as error:
            last = str(error).rpartition(" ")[2]
            if error.code == WRONG_LAST_SEQUENCE and last.isdecimal():
                return int(last)
            raise

    async def _last(self) -> int:
        """Find the sequence of the last result, 0 for none; for a request whose record is gone, so it is old."""
        message = await self._calls.ask(f"$JS.API.DIRECT.GET.{RESULTS}.{self._subject}")
        status = status_of(message)
        if status == "404":
            return 0
        if status is not None:
            answer_of(message)
            raise StoreError(f"the results answer {status}")
        return int((message.headers or {})["Nats-Sequence"])

    @property
    def _subject(self) -> str:
        return result_subject(self._address.label, self._address.function.name, self._address.token)


def _refused(reason: str) -> CallError:
    return CallError(Code.FAILED_PRECONDITION, reason)
