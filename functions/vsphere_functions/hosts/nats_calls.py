"""Many requests to NATS at once, cheaply: one inbox, plain futures, one sweep for those that time out.

nats-py's own request and publish make a timer for each; one after the other they reach a third of the rate.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from vsphere_functions.runtime.store import StoreError

WRONG_LAST_SEQUENCE = 10071
UNDECIDED = 10164  # of a cluster: another write to the subject is under way, and may yet come to nothing
WRONG_STREAM = 10060

_UNTIL_DECIDED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)  # seconds


class RefusedError(StoreError):
    """JetStream's answer is an error; `code` is its own number (10071: wrong last sequence)."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code


class NoStreamError(StoreError):
    """Nobody answers on the subject: no such stream, or a leader is being elected."""


class Calls:
    """Requests and replies over one connection; each either answers or raises StoreError within `timeout`."""

    def __init__(self, client: Client, timeout: float = 5.0) -> None:
        self._client = client
        self._timeout = timeout
        self._inbox = client.new_inbox()
        self._waiting: dict[str, tuple[asyncio.Future[Msg], float]] = {}
        self._many: dict[str, list[Msg]] = {}
        self._counter = 0
        self._sweeper: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to listen."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._answered)
        self._sweeper = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Let go of everything that still waits."""
        if self._sweeper:
            self._sweeper.cancel()
        self._fail_until(float("inf"))

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        headers: Mapping[str, str] | None = None,
        into: list[Msg] | None = None,
    ) -> Msg:
        """Send a request and wait for its answer; ValueError for one that the server would not take.

        `into` takes the messages that come before the one that ends the answer with a status.
        """
        if not self._client.is_connected:
            raise StoreError("not connected to NATS")
        if not fits(headers or {}, payload, self._client.max_payload):
            raise ValueError("a message over the server's limit, which would close the connection for good")
        self._counter += 1
        token = str(self._counter)
        if into is not None:
            self._many[token] = into
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = future, loop.time() + self._timeout
        try:
            await self._client.publish(
                subject, payload, reply=f"{self._inbox}.{token}", headers=dict(headers) if headers else None
            )
            return await future
        except NatsError as error:
            raise StoreError(str(error)) from error
        finally:
            self._waiting.pop(token, None)
            self._many.pop(token, None)

    async def ask_for_all(self, subject: str, payload: bytes) -> list[Msg]:
        """Send a request that is answered by many messages, the last of which has a status instead of data."""
        found: list[Msg] = []
        last = await self.ask(subject, payload, into=found)
        if status_of(last) not in {"204", "404"}:
            answer_of(last)
            raise StoreError(f"{subject} answers {status_of(last)}")
        return found

    async def publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Store a message in the stream of its subject; its sequence. RefusedError, NoStreamError, or StoreError.

        While another write to the subject is under way, nobody knows what is the last one: then it asks again.
        """
        for pause in _UNTIL_DECIDED:
            try:
                return await self._publish(subject, payload, headers)
            except RefusedError as error:
                if error.code != UNDECIDED:
                    raise
            await asyncio.sleep(pause)
        return await self._publish(subject, payload, headers)

    async def _publish(self, subject: str, payload: bytes, headers: Mapping[str, str] | None) -> int:
        return int(answer_of(await self.ask(subject, payload, headers))["seq"])

    async def _answered(self, message: Msg) -> None:
        token = message.subject.rpartition(".")[2]
        if token in self._many and status_of(message) is None:
            self._many[token].append(message)
            return
        waiting = self._waiting.get(token)
        if waiting and not waiting[0].done():
            waiting[0].set_result(message)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(self._timeout / 4, 0.5))
            self._fail_until(asyncio.get_running_loop().time())

    def _fail_until(self, now: float) -> None:
        for future, until in list(self._waiting.values()):
            if until > now:
                break  # the rest was asked later, and all wait as long
            if not future.done():
                future.set_exception(StoreError("no answer from NATS"))


def answer_of(message: Msg) -> dict[str, Any]:
    """Read a JetStream answer; RefusedError for an error, NoStreamError when nobody was there to answer."""
    if status_of(message) == "503":
        raise NoStreamError("no stream or consumer answers")
    try:
        answer: dict[str, Any] = json.loads(message.data)
    except ValueError:
        answer = {}
    if error := answer.get("error"):
        raise RefusedError(int(error.get("err_code", 0)), str(error.get("description", "")))
    return answer


def status_of(message: Msg) -> str | None:
    """Return the status of a message that is none: `404`, `408`, `409`, `503`, `100`.

    What comes from a stream has a sequence, and is a message even if somebody gave it a header of that name.
    """
    headers = message.headers or {}
    return None if "Nats-Sequence" in headers else headers.get("Status")


def fits(headers: Mapping[str, str], payload: bytes, limit: int) -> bool:
    """Tell whether a message is one that the server takes; most are so small that no byte needs counting."""
    letters = sum(map(len, headers)) + sum(map(len, headers.values())) + 4 * len(headers) + 16
    return len(payload) + 4 * letters < limit or size_of(headers, payload) <= limit


def size_of(headers: Mapping[str, str], payload: bytes) -> int:
    """Count what the server counts: the payload and the header block."""
    block = sum(len(name.encode()) + len(value.encode()) + 4 for name, value in headers.items())
    return len(payload) + (block + len("NATS/1.0\r\n\r\n") if headers else 0)
