"""What goes out: results, progress and dead letters."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_json, to_nats
from vsphere_events.subjects import dead_subject, progress_subject, result_subject
from vsphere_functions.hosts.nats_calls import WRONG_LAST_SEQUENCE, Calls, RefusedError, fits, size_of
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.perform import DeadLetter, Finished

_SENDABLE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of headers that can be sent; others can be received."""
_RECORD = 4096  # what a record holds beside its result, its request's id and source excepted


class Outbox:
    """Publishes over one connection; StoreError when it is not certain that a message is stored."""

    def __init__(self, client: Client, calls: Calls, worker: str) -> None:
        self._client = client
        self._calls = calls
        self._worker = worker

    def fits(self, event: CloudEvent) -> bool:
        """Tell whether a result can be published in either mode and stored in its record."""
        body = len(to_json(event))
        if 4 * body + _RECORD < self._client.max_payload:
            return True  # not even with every character of the attributes escaped would it be too big
        headers, _ = to_nats(event, Mode.BINARY)
        return body + size_of(headers, b"") + _RECORD < self._client.max_payload

    async def result(self, address: Address, finished: Finished, mode: Mode) -> None:
        """Publish a result once: one that is there already is success, and its waiters hear it again."""
        headers, body = to_nats(finished.result, mode)
        if finished.expects is not None:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(finished.expects)
        subject = result_subject(address.label, address.function.name, address.token)
        try:
            await self._calls.publish(subject, body, headers)
        except RefusedError as error:
            if error.code != WRONG_LAST_SEQUENCE:
                raise

    async def progress(self, address: Address, event: CloudEvent, mode: Mode) -> None:
        """Publish progress to whoever listens now; over an outage it is lost."""
        headers, body = to_nats(event, mode)
        if not self._client.is_connected or size_of(headers, body) > self._client.max_payload:
            return
        subject = progress_subject(address.label, address.function.name, address.token)
        try:
            await self._client.publish(subject, body, headers=headers)
        except NatsError:
            return

    async def dead(
        self,
        where: tuple[str, str],
        original: tuple[Mapping[str, str], bytes],
        letter: DeadLetter,
        *,
        sequence: int,
        message_id: str,
    ) -> None:
        """Publish a request that is given up: its headers and bytes untouched, and why beside them.

        `where` is its vCenter and function. Headers that order JetStream about are left out: they were meant for
        the requests' stream. So are those that cannot be sent. What came over HTTP can be too big with headers: then
        the letter only says so.
        """
        headers, body = original
        said = {
            "vsphere-reason": " ".join(letter.reason.split())[:1000],
            "vsphere-code": str(letter.code),
            "vsphere-attempts": str(letter.attempts),
            "vsphere-worker": self._worker,
            "vsphere-time": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            "vsphere-sequence": str(sequence),
            "vsphere-generation": str(letter.generation),
            "Nats-Msg-Id": message_id,
        }
        kept = {
            name: value
            for name, value in headers.items()
            if _SENDABLE.fullmatch(name) and not name.lower().startswith("nats-")
        }
        if not fits({**kept, **said}, body, self._client.max_payload):
            said["vsphere-reason"] += f" (the request, {len(body)} bytes, is too big to be kept)"
            kept, body = {}, b""
        await self._calls.publish(dead_subject(*where), body, {**kept, **said})
