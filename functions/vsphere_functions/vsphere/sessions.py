"""All vCenter sessions of a process: one per host and how it is trusted, user and secret."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from typing import Protocol

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.session import Endpoint, Session

MOST = 64
"""Sessions at once: the bound of what requests that bring logins of their own can open."""
IDLE = 900.0
"""Seconds without work after which a session is ended, as vCenter would itself after a while."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A host, user and password that a request brings itself; the host is on the operator's allow-list."""

    endpoint: Endpoint
    user: str
    password: str


class Lender(Protocol):
    """Whoever hands out the session of a vCenter label, or of credentials."""

    def get(self, label: str, credentials: Credentials | None = None) -> Session:
        """Return the session; InvalidArgument for no such label."""


@dataclass(slots=True, eq=False)
class _Held:
    """A session, the user it is for and where, the labels it was handed out for, and how many use it."""

    session: Session
    login: tuple[Endpoint, str]
    number: int
    labels: set[str] = field(default_factory=set)
    users: int = 0
    used: float = 0.0


class Sessions:
    """Hands out the session of a vCenter label; threads share it, processes do not.

    `configured` gives a label's credentials afresh each time, so that a rotated password is seen: it opens a session of
    its own, and once that has logged in, the one of the old password is ended when the last `work` with it is done.
    Should vCenter end it before, that work logs in again with the new one.
    """

    def __init__(
        self,
        configured: Mapping[str, Callable[[], Credentials]],
        *,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = configured
        self._most = most
        self._clock = clock
        self._numbers = count()
        self._table: dict[tuple[Endpoint, str, str], _Held] = {}
        self._leaving: set[_Held] = set()
        self._lock = threading.Lock()

    def get(self, label: str, credentials: Credentials | None = None) -> Session:
        """Return the session of the label, or of the request's own credentials, for a call or two.

        InvalidArgument for no such label; ResourceExhausted when all that there may be are at work.
        """
        with self.work() as lent:
            return lent.get(label, credentials)

    @contextmanager
    def work(self) -> Iterator["Work"]:
        """Lend sessions to one piece of work: none of them is ended before it is done."""
        lent = Work(self)
        try:
            yield lent
        finally:
            self.give_back(lent.held)

    def close(self) -> None:
        """Log all sessions out."""
        with self._lock:
            held = {*self._table.values(), *self._leaving}
            self._table, self._leaving = {}, set()
        _end(held)

    def lend(self, label: str, credentials: Credentials | None) -> _Held:
        """Count one more user of a session; for Work, which gives it back."""
        login = credentials or self._own(label)
        key = (login.endpoint, login.user, sha256(login.password.encode()).hexdigest())
        with self._lock:
            ended = self._make_room() if key not in self._table else set()
            if key not in self._table:
                session = Session(
                    login.endpoint, login.user, self._password(label, login, configured=credentials is None)
                )
                self._table[key] = _Held(session, key[:2], next(self._numbers))
            held = self._table[key]
            if credentials is None:
                held.labels.add(label)
            held.users += 1
            held.used = self._clock()
        _end(ended)
        return held

    def give_back(self, done: Iterable[_Held]) -> None:
        """Count users off, and end what is replaced or was not used for long."""
        with self._lock:
            now = self._clock()
            for held in done:
                held.users -= 1
                held.used = now
                if held.session.logged_in:
                    self._take_out(self._replaced_by(held))
            self._take_out(one for one in self._table.values() if not one.users and now - one.used > IDLE)
            ended = self._ended()
        _end(ended)

    def _own(self, label: str) -> Credentials:
        source = self._configured.get(label)
        if source is None:
            raise CallError(Code.INVALID_ARGUMENT, f"no vCenter is configured under the name {label!r}")
        return source()

    def _password(self, label: str, login: Credentials, *, configured: bool) -> str | Callable[[], str]:
        """Return the password; of a label's user, how to have the one that holds by then."""

        def now() -> str:
            with suppress(CallError):  # a file that is away for a moment
                own = self._own(label)
                if (own.endpoint, own.user) == (login.endpoint, login.user):
                    return own.password
            return login.password

        return now if configured else login.password

    def _replaced_by(self, proven: _Held) -> Iterator[_Held]:
        """Give the sessions that one which has logged in stands for: of its user before, of its labels' users before.

        One that has not logged in proves nothing: its password may be a mistake, or somebody's guess.
        """
        for one in self._table.values():
            if one.number < proven.number:
                moved = one.labels & proven.labels
                one.labels -= moved
                if one.login == proven.login or (moved and not one.labels):
                    yield one

    def _make_room(self) -> set[_Held]:
        """Make room for one more session: the one that was not used for longest has to go."""
        if len(self._table) >= self._most:
            idle = [one for one in self._table.values() if not one.users]
            if not idle:
                raise CallError(
                    Code.RESOURCE_EXHAUSTED, f"{self._most} logins at vCenters are at work already"
                )
            self._take_out([min(idle, key=lambda one: one.used)])
        return self._ended()

    def _take_out(self, unwanted: Iterable[_Held]) -> None:
        """Hand sessions out no more; they end when nobody uses them."""
        self._leaving.update(unwanted)
        self._table = {key: one for key, one in self._table.items() if one not in self._leaving}

    def _ended(self) -> set[_Held]:
        ended = {one for one in self._leaving if not one.users}
        self._leaving -= ended
        return ended


class Work:
    """The sessions that one piece of work uses; the same one each time it asks."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._lent: dict[tuple[str, Credentials | None], _Held] = {}

    @property
    def held(self) -> list[_Held]:
        """What was lent."""
        return list(self._lent.values())

    def get(self, label: str, credentials: Credentials | None = None) -> Session:
        """Return the session, as Sessions.get does."""
        if (label, credentials) not in self._lent:
            self._lent[label, credentials] = self._sessions.lend(label, credentials)
        return self._lent[label, credentials].session


def _end(held: Iterable[_Held]) -> None:
    for one in held:
        one.session.close()
