"""The dead letters: read, found, shown without secrets, removed."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self, TypeAlias, TypeVar

from nats.aio.msg import Msg

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Received, from_nats
from vsphere_events.error import CallError
from vsphere_events.subjects import Subject
from vsphere_functions.hosts.nats_calls import Calls, NoStreamError, RefusedError, answer_of, status_of
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_names import DEAD
from vsphere_functions.runtime.masked import HIDDEN, hidden, masked
from vsphere_functions.runtime.settings import Settings, SettingsError
from vsphere_functions.runtime.store import StoreError

T = TypeVar("T")
Row: TypeAlias = dict[str, Any]

AT_ONCE = 100
"""Letters in one answer, and deletes under way."""
_BYTES_AT_ONCE = 4 * 1024 * 1024
_SUBJECTS = "vsphere.dead.*.*"
_OURS = "vsphere-"
_SAID = ("reason", "code", "attempts", "worker", "time", "sequence", "generation")


@dataclass(frozen=True, slots=True)
class Letter:
    """A request that was given up, and why; `number` is its sequence in VSPHERE_DEAD.

    `received` is None for what is no event. `message_id` names what died: `<vcenter>.<token>.<generation>` for an
    operation with a record, else the message (`seq.<n>`, `batch.<n>.<at>`).
    """

    number: int
    subject: Subject
    headers: Mapping[str, str]
    body: bytes
    said: Mapping[str, str]
    message_id: str
    received: Received | None

    @classmethod
    def read(cls, message: Msg) -> Self:
        """Take a message of the stream apart into what the producer and what the worker has said."""
        given = dict(message.headers or {})
        said = {name: given.get(_OURS + name, "") for name in _SAID}
        said["time"] = said["time"] if _is_time(said["time"]) else given["Nats-Time-Stamp"]
        own = {
            name: value
            for name, value in given.items()
            if not name.startswith("Nats-") and name.removeprefix(_OURS) not in _SAID
        }
        return cls(
            number=int(given["Nats-Sequence"]),
            subject=Subject.parse(given["Nats-Subject"]),
            headers=own,
            body=message.data,
            said=said,
            message_id=given.get("Nats-Msg-Id", ""),
            received=_received(own, message.data),
        )

    @property
    def event(self) -> CloudEvent | None:
        """The request, if it can be read as one."""
        return self.received.event if self.received else None

    @property
    def code(self) -> str:
        """Why it was given up, as a machine code."""
        return self.said["code"]

    @property
    def sequence(self) -> int | None:
        """Its place among the requests; None when it came over HTTP."""
        return _count(self.said["sequence"]) or None

    @property
    def generation(self) -> int:
        """How often it had been sent again by then."""
        return _count(self.said["generation"])

    @property
    def time(self) -> datetime:
        """When it was given up."""
        return datetime.fromisoformat(self.said["time"])

    def row(self) -> Row:
        """Give what a list tells of it."""
        event = self.event
        return {
            "letter": self.number,
            "function": self.subject.function,
            "vcenter": self.subject.vcenter,
            "id": event and event.id,
            "source": event and event.source,
            "code": self.code,
            "reason": self.said["reason"],
            "attempts": _count(self.said["attempts"]),
            "worker": self.said["worker"],
            "time": self.said["time"],
        }

    def shown(self) -> Row:
        """Give all of it, secrets hidden."""
        headers = {name: HIDDEN if hidden(name) else masked(value) for name, value in self.headers.items()}
        return {
            **self.row(),
            "sequence": self.sequence,
            "generation": self.generation,
            "headers": headers,
            "event": self._event(),
        }

    def _event(self) -> dict[str, Any]:
        """Show the request; of what cannot be read, where secrets cannot be told from the rest, only its size."""
        event = self.event
        if event is None:
            return _sized(self.body)
        shown: dict[str, Any] = {
            name: HIDDEN if hidden(name) else masked(value) for name, value in event.attributes().items()
        }
        if isinstance(event.data, dict | list | str | bytes):
            shown["data"] = _sized(event.data) if isinstance(event.data, bytes) else masked(event.data)
        return shown


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are meant: those named, by number or id of their request, of all that the other fields leave."""

    names: Sequence[str] = ()
    function: str | None = None
    vcenter: str | None = None
    older_than: timedelta = timedelta()

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """Pick those that are named; NotFound says which are not there."""
        if not self.names:
            return list(rows)
        found = [_named(name, rows) for name in self.names]
        if missing := [name for name, those in zip(self.names, found, strict=True) if not those]:
            raise CallError(Code.NOT_FOUND, f"no dead letter {', '.join(missing)}")
        return list({row["letter"]: row for those in found for row in those}.values())

    def leaves(self, letter: Letter, now: datetime) -> bool:
        """Tell whether the other fields leave it."""
        return (
            self.function in {None, letter.subject.function}
            and self.vcenter in {None, letter.subject.vcenter}
            and now - letter.time >= self.older_than
        )


class DeadLetters:
    """The stream of dead letters over one connection; StoreError when it does not answer."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    async def rows(self, choice: Choice) -> list[Row]:
        """List them, oldest first; what they hold is not kept in memory."""
        now = datetime.now(UTC)
        return choice.of([one.row() async for one in self._all() if choice.leaves(one, now)])

    async def get(self, number: int) -> Letter:
        """Read one; NotFound when it is gone."""
        message = await self._ask({"seq": number})
        if status_of(message) is not None:
            answer_of(message)
            raise CallError(Code.NOT_FOUND, f"no dead letter {number} any more")
        return Letter.read(message)

    async def remove(self, numbers: Sequence[int]) -> set[int]:
        """Delete up to AT_ONCE of them, overwriting what they hold; those that were still there."""
        there = await asyncio.gather(*map(self._remove, numbers))
        return {number for number, was in zip(numbers, there, strict=True) if was}

    async def _all(self) -> AsyncIterator[Letter]:
        first = 1
        while True:
            some: list[Msg] = []
            wanted = {"seq": first, "batch": AT_ONCE, "max_bytes": _BYTES_AT_ONCE, "next_by_subj": _SUBJECTS}
            last = await self._ask(wanted, some)
            if status_of(last) not in {"204", "404"}:
                answer_of(last)
                raise StoreError(f"the stream answers {status_of(last)}")
            if not some:
                return
            for letter in map(Letter.read, some):
                yield letter
                first = letter.number + 1

    async def _ask(self, wanted: Mapping[str, Any], into: list[Msg] | None = None) -> Msg:
        return await self.calls.ask(f"$JS.API.DIRECT.GET.{DEAD}", json.dumps(wanted).encode(), into=into)

    async def _remove(self, number: int) -> bool:
        """Delete one; False when it was gone, of which the server's code says no more than that it failed."""
        try:
            wanted = json.dumps({"seq": number}).encode()
            answer_of(await self.calls.ask(f"$JS.API.STREAM.MSG.DELETE.{DEAD}", wanted))
        except RefusedError:
            with suppress(CallError):
                await self.get(number)
                raise
            return False
        return True


def with_letters(settings: Settings, work: Callable[[DeadLetters], Awaitable[T]]) -> T:
    """Connect for a short piece of work; SettingsError when NATS or the stream does not answer."""

    async def run() -> T:
        async with connected(settings) as client:
            calls = Calls(client)
            await calls.open()
            try:
                return await work(DeadLetters(calls))
            except NoStreamError as error:
                raise SettingsError(
                    "a stream is missing, or elects its leader just now; if that lasts, run setup"
                ) from error
            except StoreError as error:
                said = str(client.last_error)  # what is forbidden is told beside, and never answered
                raise SettingsError(said if "permissions violation" in said else f"NATS: {error}") from error
            finally:
                await calls.close()

    return asyncio.run(run())


def _named(name: str, rows: Sequence[Row]) -> list[Row]:
    by_number = [row for row in rows if str(row["letter"]) == name]
    return by_number or [row for row in rows if row["id"] == name]


def _received(headers: Mapping[str, str], body: bytes) -> Received | None:
    try:
        received = from_nats(headers, body)
    except CallError:
        return None
    return received if isinstance(received, Received) else None


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _sized(body: bytes) -> dict[str, Any]:
    return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
