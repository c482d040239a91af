"""HTTPS connections to one vCenter: few, kept, looked at before they are used again."""

import select
import ssl
import threading
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere import tls
from vsphere_functions.vsphere.faults import NoAnswer

IDLE_CAP = 60.0
"""Seconds after which an unused connection is closed; servers and firewalls drop them soon after."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a vCenter is and how it is trusted; `url` is `https://host[:port]/sdk`, times are seconds.

    A `thumbprint` (SHA-256, colons optional) stands for the whole check of the certificate, name included.
    `pool` caps the calls in flight.
    """

    url: str
    ca_file: Path | None = None
    thumbprint: str | None = None
    insecure: bool = False
    pool: int = 16
    connect_timeout: float = 10.0
    read_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server sent back."""

    status: int
    headers: HTTPMessage
    body: bytes


class Transport:
    """Sends requests; threads share it. It never sends one twice."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        parts = urlsplit(endpoint.url)
        if parts.scheme != "https" or not parts.hostname:
            raise CallError(Code.INVALID_ARGUMENT, "a vCenter's address has the form https://host[:port]/sdk")
        self.path = parts.path.rstrip("/") or "/sdk"
        self.name = parts.netloc.rpartition("@")[2]
        self._host, self._port = parts.hostname, parts.port or 443
        self._endpoint = endpoint
        self._clock = clock
        self._pin = tls.thumbprint(endpoint.thumbprint) if endpoint.thumbprint else None
        self._context = tls.context(endpoint.ca_file, verify=not (endpoint.insecure or self._pin))
        self._slots = threading.BoundedSemaphore(endpoint.pool)
        self._lock = threading.Lock()
        self._idle: list[tuple[HTTPSConnection, float]] = []
        self._guard = threading.local()

    @contextmanager
    def guarded(self, check: Callable[[], None]) -> Iterator[None]:
        """Have this thread check before each request, at the last moment: a slot or a connection can be long in coming.

        What the check raises is the end of the call.
        """
        self._guard.check = check
        try:
            yield
        finally:
            del self._guard.check

    def send(
        self,
        verb: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        taken: Container[int] = (200, 500),
    ) -> Answer:
        """Send one request and read the whole answer; NoAnswer when there is none or its status is not `taken`."""
        with self._slots:
            connection = self._take()
            connection.sock.settimeout(timeout or self._endpoint.read_timeout)
            answer = self._exchange(connection, verb, path, body, headers or {})
        if answer.status not in taken:
            raise NoAnswer(f"vCenter {self.name} answers HTTP {answer.status}", sent=True)
        return answer

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _exchange(
        self,
        connection: HTTPSConnection,
        verb: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        kept = False
        try:
            getattr(self._guard, "check", _nothing)()
            connection.request(verb, path, body, dict(headers))
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
            kept = not response.will_close
        except (OSError, HTTPException) as broken:
            reason = f"vCenter {self.name} gave no answer: {_why(broken)}"
            raise NoAnswer(reason, sent=True) from broken
        finally:
            if not kept:
                connection.close()
        if kept:
            with self._lock:
                self._idle.append((connection, self._clock()))
        return answer

    def _take(self) -> HTTPSConnection:
        """Return the connection used last that is still good, or a new one."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if self._clock() - since < IDLE_CAP and _quiet(connection):
                return connection
            connection.close()
        return self._connect()

    def _connect(self) -> HTTPSConnection:
        connection = HTTPSConnection(
            self._host, self._port, timeout=self._endpoint.connect_timeout, context=self._context
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as untrusted:
            reason = f"the certificate of vCenter {self.name} is not trusted: {untrusted.verify_message}"
            raise NoAnswer(reason, sent=False, final=True) from untrusted
        except OSError as broken:
            reason = f"vCenter {self.name} cannot be reached: {_why(broken)}"
            raise NoAnswer(reason, sent=False) from broken
        if self._pin and not tls.pinned(connection.sock, self._pin):
            connection.close()
            raise NoAnswer(
                f"vCenter {self.name} shows another certificate than the pinned one", sent=False, final=True
            )
        return connection


def _nothing() -> None:
    """Check nothing."""


def _quiet(connection: HTTPSConnection) -> bool:
    """Say whether nothing has come in on an idle connection: what comes there is the peer's farewell."""
    look = select.poll()
    look.register(connection.sock, select.POLLIN)
    return not look.poll(0)


def _why(broken: Exception) -> str:
    return getattr(broken, "strerror", None) or str(broken) or type(broken).__name__
