"""The one door to a vCenter: one session, shared by all threads, through which every call and every read goes."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

from pyVmomi.VmomiSupport import GuessWsdlType

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere import reader
from vsphere_functions.vsphere.calls import Method, newest_version, reference
from vsphere_functions.vsphere.faults import Fault, NoAnswer, as_call_error, unavailable
from vsphere_functions.vsphere.login import POLICIES, Login, Service
from vsphere_functions.vsphere.plain import value
from vsphere_functions.vsphere.reader import Row
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.tasks import TaskWatcher, Watched
from vsphere_functions.vsphere.transport import Answer, Endpoint, Transport

T = TypeVar("T")

SERVICE = Ref("ServiceInstance", "ServiceInstance")
TRIES = 3
PAUSE = 0.1
"""Seconds before the second of the tries, about, and twice that before the third; a delivery retries for longer."""
FILE_ANSWERS = frozenset({*range(200, 500), 507})
"""HTTP statuses of file access that are answers; 507 is no space."""
LOCKOUT = 60.0
"""Seconds without a second try after vCenter refused the password: accounts are locked after a few."""


class Session:
    """A vCenter session that is opened at first use, renewed when it is lost, and closed by `close`.

    `password` is asked for at each login when it can be called. Errors are CallErrors; `fault_of`, `fault_name` and
    `outcome_unknown` (faults) tell more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        user: str,
        password: str | Callable[[], str],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = Transport(endpoint, clock)
        self._user, self._password = user, password
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False
        self._service: Service | None = None
        self._login: Login | None = None
        self._refused: tuple[float, Fault] | None = None
        self._attempts = 0
        self._lost: NoAnswer | None = None
        self._kept: dict[type, Any] = {}
        self._watcher = TaskWatcher(self.read)

    @property
    def content(self) -> Mapping[str, Any]:
        """The service content, read once: `content["searchIndex"]` is a Ref."""
        return self._attempt(lambda _: self._known(), repeatable=True).content

    @property
    def instance_uuid(self) -> str:
        """The vCenter's own instance uuid; task and object ids mean something only within it."""
        return str(self.content["about"]["instanceUuid"])

    @property
    def api_version(self) -> str:
        """The API version that the vCenter says it has, such as `8.0.3.0`."""
        return str(self.content["about"]["apiVersion"])

    @property
    def logged_in(self) -> bool:
        """Whether a login has succeeded and is not known to be lost."""
        return self._login is not None

    def kept(self, kind: type[T]) -> T:
        """Return the session's one object of the type, made at first use: caches that live as long as it does."""
        with self._lock:
            if kind not in self._kept:
                self._kept[kind] = kind()
            made: T = self._kept[kind]
            return made

    def call(
        self, ref: Ref, method: str, /, *, step: str | None = None, repeatable: bool = False, **arguments: Any
    ) -> Any:
        """Call a method by its wire name, arguments by pyVmomi's parameter names; Refs in and out.

        A repeatable call is sent again when no answer came; another one never, and then raises Unavailable of which
        `outcome_unknown` is true. Faults become codes as those of `step`.
        """
        asked = Method(method, arguments)
        return self._attempt(
            lambda login: asked.result(self._ask(asked, ref, login)),
            repeatable=repeatable,
            step=step,
            doing=method,
        )

    def read(self, refs: Iterable[Ref], paths: Mapping[str, Sequence[str]]) -> dict[Ref, Row]:
        """Read properties by type; an object that is gone is left out, an unset property is absent from its row.

        PermissionDenied names the property: what may not be seen is never taken for absent.
        """
        wanted = list(dict.fromkeys(refs))
        if not wanted:
            return {}

        def work(login: Login) -> dict[Ref, Row]:
            rows = self._collect(login, reader.retrieve(self._collector, wanted, paths))
            if len(rows) < len(wanted):
                self._prove(login)
            return rows

        return self._attempt(work, repeatable=True, doing="property read")

    def scan(self, paths: Mapping[str, Sequence[str]], root: Ref | None = None) -> dict[Ref, Row]:
        """Read properties of every object of the given types below `root`, by one container view."""
        kinds = [GuessWsdlType(kind) for kind in paths]
        views: Ref = self.content["viewManager"]
        top = root or self.content["rootFolder"]
        make = Method("CreateContainerView", {"container": top, "type": kinds, "recursive": True})

        def work(login: Login) -> dict[Ref, Row]:
            view: Ref = make.result(self._post(make.request(views, self._known().version), login))
            try:
                rows = self._collect(login, reader.retrieve_view(self._collector, view, paths))
            except Fault as fault:
                if fault.is_a("ManagedObjectNotFound"):
                    self._prove(login)  # views end with their session, and this may be how that shows
                raise
            finally:
                with suppress(Fault, NoAnswer):
                    self._post(reader.request(view, "DestroyView"), login)
            if rows.pop(view, None) is None:
                raise Fault("NotAuthenticated", "the view is gone, and with it the session that made it")
            return rows

        return self._attempt(work, repeatable=True, doing="inventory scan")

    def tasks(self, paths: Sequence[str]) -> dict[Ref, Row]:
        """Read properties of all tasks that run or are queued, and of those that ended lately, in one call.

        The list itself is asked for: who may not see it would be told of no task.
        """
        manager: Ref = self.content["taskManager"]
        wanted = {manager.type: ("recentTask",), "Task": paths}

        def work(login: Login) -> dict[Ref, Row]:
            rows = self._collect(
                login, reader.retrieve_listed(self._collector, manager, "recentTask", wanted)
            )
            if rows.pop(manager, None) is None:
                raise Fault("NotAuthenticated", "the task manager does not show itself")
            return rows

        return self._attempt(work, repeatable=True, doing="read of the tasks")

    def file(self, verb: str, path: str, body: bytes | None = None) -> Answer:
        """Read (`GET`) or write (`PUT`) a datastore's file under this login; a second time does the same.

        Refusals are answers: their status says what is wrong.
        """

        def work(login: Login) -> Answer:
            answer = self._transport.send(verb, path, body, {"Cookie": login.cookie}, None, FILE_ANSWERS)
            if answer.status == 401:
                raise Fault("NotAuthenticated", "the file access does not know the session")
            return answer

        return self._attempt(work, repeatable=True, doing=f"{verb} of a file")

    def guarded(self, check: Callable[[], None]) -> AbstractContextManager[None]:
        """Have what this thread sends meanwhile checked at the last moment; what the check raises is not sent."""
        return self._transport.guarded(check)

    def watch(self, task: Ref, step: str | None = None) -> Watched:
        """Follow a task; its error will be read as one of `step`."""
        return self._watcher.watch(task, step)

    def close(self) -> None:
        """Log out and drop the connections; a closed session answers Unavailable."""
        self._watcher.close()
        with self._lock:
            self._closed = True
            login, self._login = self._login, None
            if login is not None and self._service is not None:
                with suppress(Fault, NoAnswer):
                    self._post(
                        reader.request(self._service.content["sessionManager"], "Logout"), login, timeout=5.0
                    )
            self._transport.close()

    def _attempt(
        self, work: Callable[[Login], T], *, repeatable: bool, step: str | None = None, doing: str = ""
    ) -> T:
        """Do the work under a login: again after a lost session (once; it was not executed), and after no answer."""
        stale: Login | None = None
        renewed, failures = False, 0
        while True:
            try:
                login = self._logged_in(stale)
                return work(login)
            except Fault as fault:
                if renewed or not fault.is_a("NotAuthenticated"):
                    raise as_call_error(fault, step, doing) from fault
                stale, renewed = login, True
            except NoAnswer as lost:
                failures += 1
                if lost.final or failures == TRIES or (lost.sent and not repeatable):
                    raise unavailable(lost, doing) from lost
                time.sleep(random.uniform(0.5, 1.5) * PAUSE * failures)  # noqa: S311 - spreads the tries, hides nothing

    def _collect(self, login: Login, body: bytes) -> dict[Ref, Row]:
        """Read page by page; the server makes the next one while this one is read."""
        rows: dict[Ref, Row] = {}
        answer = self._post(body, login)
        with ThreadPoolExecutor(1, "page") as ahead:
            while True:
                guess = reader.token_in(answer)
                coming = ahead.submit(self._next, guess, login) if guess else None
                page = reader.read_page(answer)
                rows.update(page.rows)
                if page.token is None:
                    return rows
                answer = coming.result() if coming and guess == page.token else self._next(page.token, login)

    def _next(self, token: str, login: Login) -> bytes:
        return self._post(reader.more(self._collector, token), login)

    @property
    def _collector(self) -> Ref:
        collector: Ref = self._known().content["propertyCollector"]
        return collector

    def _prove(self, login: Login) -> None:
        """Raise NotAuthenticated unless the session lives: without one, nothing proves that an object is gone."""
        self._post(reader.request(SERVICE, "CurrentTime"), login)

    def _ask(self, asked: Method, ref: Ref, login: Login) -> bytes:
        """Send a call to the endpoint that knows its object."""
        if ref.type.startswith("Pbm"):
            body = asked.request(ref, POLICIES.version, login.context)
            return self._send(body, POLICIES.action, {"Cookie": login.cookie}, path=POLICIES.path).body
        return self._post(asked.request(ref, self._known().version), login)

    def _post(self, body: bytes, login: Login, timeout: float | None = None) -> bytes:
        """Send one request under a login; Fault when it is refused."""
        return self._send(body, self._known().action, {"Cookie": login.cookie}, timeout).body

    def _send(
        self,
        body: bytes,
        action: str,
        more: Mapping[str, str] | None = None,
        timeout: float | None = None,
        path: str | None = None,
    ) -> Answer:
        headers = {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": action, **(more or {})}
        answer = self._transport.send("POST", path or self._transport.path, body, headers, timeout)
        if answer.status == 500:
            reader.returned(answer.body)
            raise NoAnswer(f"vCenter {self._transport.name} answers HTTP 500", sent=True)
        return answer

    def _known(self) -> Service:
        """Negotiate the version and read the service content, once."""
        with self._lock:
            if self._service is None:
                listed = self._transport.send("GET", f"{self._transport.path}/vimServiceVersions.xml")
                version, wire = newest_version(listed.body)
                action = f'"urn:vim25/{wire}"'
                answer = self._send(reader.request(SERVICE, "RetrieveServiceContent"), action)
                described = next(reader.returned(answer.body), None)
                if described is None:
                    raise NoAnswer(f"vCenter {self._transport.name} does not say what it offers", sent=True)
                self._service = Service(version, action, value(described, "ServiceContent"))
            return self._service

    def _logged_in(self, stale: Login | None) -> Login:
        """Return the current login, made by one thread for all when there is none or it is the stale one."""
        seen = self._attempts
        with self._lock:
            if self._closed:
                raise CallError(Code.UNAVAILABLE, "the session of this vCenter is closed")
            if self._login is not None and self._login is not stale:
                return self._login
            if self._attempts != seen and self._lost is not None:
                raise NoAnswer(self._lost.reason, sent=False, final=self._lost.final) from self._lost
            if self._refused is not None and self._clock() < self._refused[0]:
                raise as_call_error(self._refused[1], "login", "login, not tried again yet")
            self._attempts += 1
            self._login = self._lost = self._refused = None
            try:
                self._login = self._log_in()
            except NoAnswer as lost:
                self._lost = lost
                raise NoAnswer(lost.reason, sent=False, final=lost.final) from lost
            return self._login

    def _log_in(self) -> Login:
        """Log in without a cookie, so that the answer brings that of a fresh session."""
        service = self._known()
        password = self._password if isinstance(self._password, str) else self._password()
        login = Method("Login", {"userName": self._user, "password": password})
        try:
            answer = self._send(
                login.request(service.content["sessionManager"], service.version), service.action
            )
        except Fault as fault:
            error = as_call_error(fault, "login", f"login at {self._transport.name}")
            if not error.code.retryable:
                self._refused = (self._clock() + LOCKOUT, fault)
            raise error from fault
        cookies = [text.partition(";")[0] for text in answer.headers.get_all("Set-Cookie") or []]
        if not cookies:
            raise NoAnswer(f"vCenter {self._transport.name} gave no session", sent=True)
        return Login("; ".join(cookies))


__all__ = ["Endpoint", "Row", "Session", "Watched", "reference"]
