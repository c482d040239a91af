"""What a process holds to serve functions over HTTP."""

import asyncio
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from starlette.requests import Request
from starlette.responses import Response

from vsphere_events.envelope import Mode
from vsphere_functions.hosts import http_answers as answers
from vsphere_functions.hosts.http_loop import LoopThread
from vsphere_functions.hosts.http_ready import VCenterChecks
from vsphere_functions.hosts.http_receive import receive
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.catalogue import CATALOGUE
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.perform import Delivery, Desk, Ending
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import MemoryStore, StoreError

_FOR_PROBES = 2  # threads that requests never take
_STORE_PAUSE = 5


class Service:
    """Serves requests from its making until `close`; lives on the server's event loop, requests on another thread's."""

    def __init__(self, settings: Settings) -> None:
        slots = settings.http.slots
        self._settings = settings
        self._slots = slots
        self._running: set[asyncio.Task[Response]] = set()
        self._loop = LoopThread("requests")
        self._desk = Desk(
            name=f"{socket.gethostname()}/{os.getpid()}",
            settings=settings,
            catalogue=CATALOGUE,
            sessions=sessions_of(settings),
            store=MemoryStore(),
            pool=ThreadPoolExecutor(slots + _FOR_PROBES, thread_name_prefix="function"),
        )
        self._vcenters = VCenterChecks(self._desk.sessions, tuple(settings.vcenters), self._desk.pool)
        telemetry.log().warning("no NATS is configured: records are kept in memory and end with this process")

    async def respond(self, request: Request, function: str | None) -> Response:
        """Do what a request asks, of one function or of any; whoever gives up waiting does not stop it."""
        try:
            address, mode = await receive(request, function, self._settings)
        except answers.Rejected as rejected:
            return rejected.answer
        if self._desk.stopping.is_set():
            return answers.later(0, "the process is shutting down")
        if len(self._running) >= self._slots:
            return answers.later(0, f"{self._slots} requests run already")
        task = asyncio.create_task(self._answer(address, mode))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def ready(self) -> Response:
        """Say whether requests can be served, and what is missing."""
        down = await self._vcenters.down()
        if self._desk.stopping.is_set():
            down = {"process": "shutting down"}
        return answers.readiness(down)

    async def close(self) -> None:
        """Let what runs check in at its next step, for as long as the settings allow, then log out."""
        self._desk.stopping.set()
        if self._running:
            await asyncio.wait(self._running, timeout=self._settings.worker.drain_seconds)
        await asyncio.to_thread(self._desk.sessions.close)
        self._desk.pool.shutdown(wait=False, cancel_futures=True)
        self._loop.stop()

    async def _answer(self, address: Address, mode: Mode) -> Response:
        try:
            return answers.answer_to(await self._loop.run(self._perform(address)), mode)
        except StoreError:
            return answers.later(_STORE_PAUSE, "the records of operations cannot be reached")
        except Exception:  # noqa: BLE001 - whatever it is, the caller gets an answer without its text
            telemetry.log().exception("the host failed unexpectedly")
            return answers.broken()

    async def _perform(self, address: Address) -> Ending:
        return await perform(self._desk, address, Delivery(), lambda _: None)
