"""All vCenter sessions of a process: one per host and how it is trusted, user and secret."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.session import Endpoint, Session


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A host, user and password that a request brings itself; the host is on the operator's allow-list."""

    endpoint: Endpoint
    user: str
    password: str


class Sessions:
    """Hands out the session of a vCenter label; threads share it, processes do not.

    `configured` gives a label's credentials afresh each time, so that a rotated password is seen.
    """

    def __init__(self, configured: Mapping[str, Callable[[], Credentials]]) -> None:
        self._configured = configured
        self._sessions: dict[tuple[Endpoint, str, str], Session] = {}
        self._lock = threading.Lock()

    def get(self, label: str, credentials: Credentials | None = None) -> Session:
        """Return the session of the label, or of the request's own credentials; InvalidArgument for no such label."""
        if credentials is None:
            source = self._configured.get(label)
            if source is None:
                raise CallError(Code.INVALID_ARGUMENT, f"no vCenter is configured under the name {label!r}")
            credentials = source()
        secret = sha256(credentials.password.encode()).hexdigest()
        key = (credentials.endpoint, credentials.user, secret)
        with self._lock:
            if key not in self._sessions:
                self._sessions[key] = Session(credentials.endpoint, credentials.user, credentials.password)
            return self._sessions[key]

    def close(self) -> None:
        """Log all sessions out."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()
