"""What a process holds to serve functions over HTTP."""

import asyncio
import dataclasses
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request
from starlette.responses import Response

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode
from vsphere_functions.hosts import http_answers as answers
from vsphere_functions.hosts.http_loop import LoopThread
from vsphere_functions.hosts.http_nats import Link, Linking
from vsphere_functions.hosts.http_ready import NONE, VCenterChecks
from vsphere_functions.hosts.http_receive import receive
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.catalogue import CATALOGUE, UNDO
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.perform import Delivery, Desk, Ending, Finished
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import MemoryStore, StoreError

_ENDING = "the process is shutting down"
_FOR_PROBES = 2  # threads that requests never take
_FOR_CANCELS = 4  # threads beside those that long creates fill
_STORE_PAUSE = 5
_STILL_RUNS = 5
_AFTERWARDS = 2  # seconds for leases to be let go


class Service:
    """Serves requests from its making until `close`.

    It lives on the server's event loop; requests, records and NATS on another thread's, where they go on when their
    callers go away; the functions in a pool of threads. `abandoned`: one of these still waits for a vCenter, and would
    hold a process that ends by itself.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots = {False: settings.http.slots, True: _FOR_CANCELS}
        self.abandoned = True  # until `close` has seen everything end
        self._running: dict[asyncio.Task[Response], bool] = {}
        self._loop = LoopThread("requests")
        self._desk = Desk(
            name=f"{socket.gethostname()}-{os.getpid()}",
            settings=settings,
            catalogue=CATALOGUE,
            undos=UNDO,
            sessions=sessions_of(settings),
            store=MemoryStore(),
            pool=ThreadPoolExecutor(sum(self._slots.values()) + _FOR_PROBES, thread_name_prefix="function"),
        )
        self._vcenters = VCenterChecks(self._desk.sessions, tuple(settings.vcenters), self._desk.pool)
        self._linking = Linking(self._loop, settings, self._desk.name) if settings.nats else None
        if self._linking is None:
            telemetry.log().warning(
                "no NATS is configured: records are kept in memory and end with this process"
            )

        if not settings.vcenters:
            telemetry.log().warning("no vCenter can be used", reason=NONE)

    def look(self) -> None:
        """Ask the vCenters once, so that the log tells at the start of those that cannot be used."""
        self._vcenters.look()

    async def respond(self, request: Request, function: str | None) -> Response:
        """Do what a request asks, of one function or of any; whoever gives up waiting does not stop it.

        Platforms end calls at a limit of theirs, each in its own way; before that the caller is asked to come again.
        """
        try:
            address, mode = await receive(request, function, self._settings)
        except answers.Rejected as rejected:
            return rejected.answer
        if self._desk.stopping.is_set():
            return answers.later(0, _ENDING)
        cancels = address.function.name == "cancel_request"
        if list(self._running.values()).count(cancels) >= self._slots[cancels]:
            return answers.later(0, f"{self._slots[cancels]} requests run already")
        task = asyncio.create_task(self._answer(address, mode))
        self._running[task] = cancels
        task.add_done_callback(self._running.pop)
        await asyncio.wait({task}, timeout=self._settings.http.answer_seconds)
        if not task.done():
            telemetry.log().info("a request goes on beyond its call", request=address.token)
            return answers.later(_STILL_RUNS, "it takes longer than a call may and goes on; ask again")
        return answers.later(0, _ENDING) if task.cancelled() else task.result()

    def leave(self, origin: str) -> Response:
        """Say whether a sender may deliver; the address to call back at, which it may name, is never called."""
        known = origin.lower() in {one.lower() for one in self._settings.http.webhook_origins}
        return answers.leave(origin) if known else answers.wrong_method(("POST",))

    async def ready(self) -> Response:
        """Say whether requests can be served, and what is missing."""
        if self._desk.stopping.is_set():
            return answers.readiness({"process": "shutting down"})
        problems = await self._vcenters.problems()
        if self._linking and (problem := await self._loop.run(self._linking.problem())):
            problems["nats"] = problem
        return answers.readiness(problems)

    async def close(self) -> None:
        """Let what runs check in at its next step, for as long as the settings allow, then leave and log out."""
        self._desk.stopping.set()
        left: set[asyncio.Task[Response]] = set()
        if self._running:
            _, left = await asyncio.wait(self._running, timeout=self._settings.worker.drain_seconds)
        for task in left:
            task.cancel()
        await self._loop.run(self._leave())
        await asyncio.to_thread(self._desk.sessions.close)
        self._desk.pool.shutdown(wait=False, cancel_futures=True)
        self._loop.stop()
        self.abandoned = bool(left) or self._vcenters.waiting

    async def _answer(self, address: Address, mode: Mode) -> Response:
        try:
            return answers.answer_to(await self._loop.run(self._perform(address, mode)), mode)
        except StoreError as error:
            telemetry.log().warning("a request is put off", request=address.token, reason=str(error))
            return answers.later(_STORE_PAUSE, "the records of operations cannot be reached")
        except Exception:  # noqa: BLE001 - whatever it is, the caller gets an answer without its text
            telemetry.log().exception("a request could not be handled")
            return answers.broken()

    async def _perform(self, address: Address, mode: Mode) -> Ending:
        """Take a request to its end, and its result to the stream; runs on the requests' thread."""
        if self._linking is None:
            return await perform(self._desk, address, Delivery(), lambda _: None)
        link = await self._linking.link()
        if link is not None:
            return await self._perform_linked(link, address, mode)
        if address.function.changes:
            raise StoreError("not connected to NATS")
        return await perform(self._desk, address, Delivery(), lambda _: None)

    async def _perform_linked(self, link: Link, address: Address, mode: Mode) -> Ending:
        assert self._settings.nats
        lease = self._settings.nats.lease
        desk = dataclasses.replace(self._desk, store=link.store, lease=lease, fits=link.outbox.fits)

        def tell(event: CloudEvent) -> None:
            desk.aside(link.outbox.progress(address, event, mode))

        ending = await perform(desk, address, Delivery(), tell)
        if isinstance(ending, Finished):
            try:
                await link.finish(address, ending, mode)
            except StoreError:
                if address.function.changes:
                    raise
        return ending

    async def _leave(self) -> None:
        if self._desk.background:
            await asyncio.wait(set(self._desk.background), timeout=_AFTERWARDS)
        if self._linking:
            await self._linking.close()
