"""The JetStream worker: takes requests from their consumers and answers into the results stream."""

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from typing import Any, TypeVar

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts.health import Health
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_check import check
from vsphere_functions.hosts.nats_connection import addresses, connect, nats_of
from vsphere_functions.hosts.nats_inbox import Inbox
from vsphere_functions.hosts.nats_names import consumer_name
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.hosts.nats_pull import Pull, Room
from vsphere_functions.hosts.seldom import Seldom
from vsphere_functions.hosts.vcenters import VCenters
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.catalogue import CATALOGUE, UNDO, Catalogue
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.perform import Desk
from vsphere_functions.runtime.settings import Settings, SettingsError

T = TypeVar("T")

_LOOK_AGAIN = 2.0  # seconds between two self-checks while something is missing


def worker(settings: Settings, catalogue: Catalogue = CATALOGUE, undos: Catalogue = UNDO) -> int:
    """Work until SIGTERM or SIGINT; the exit status: 0, or 1 after a line that says why it cannot."""
    telemetry.configure()
    try:
        one = Worker(settings, catalogue, undos)
        gc.collect()
        gc.freeze()  # what is imported stays: each full collection would look through all of it
        status = asyncio.run(one.run())
    except SettingsError as error:
        telemetry.log().error("the worker cannot work", reason=str(error))
        return 1
    if one.abandoned:
        # A thread that waits for a vCenter would hold the process; its lease ends by itself.
        sys.stderr.flush()
        os._exit(status)
    return status


class Worker:
    """A worker from start to end; `port` is where its health answers, once it runs."""

    def __init__(self, settings: Settings, catalogue: Catalogue = CATALOGUE, undos: Catalogue = UNDO) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._undos = undos
        self._nats = nats_of(settings)
        self._sessions = sessions_of(settings)
        self._vcenters = VCenters(settings, self._sessions, every=self._nats.heartbeat)
        self._health = Health(self.problems)
        self._client: Client | None = None
        self._pulls: list[Pull] = []
        self._inbox: Inbox | None = None
        self._missing = ["not asked yet"]
        self._forbidden: list[str] = []
        self._seldom = Seldom()
        self._ended = asyncio.Event()
        self._status = 0
        self.port = 0
        self.abandoned = False

    def problems(self) -> Mapping[str, str]:
        """Name each part that is not ready."""
        found = dict(self._vcenters.problems())
        if self._client is None or not self._client.is_connected:
            return {"nats": "not connected", **found}
        trouble = [one.problem for one in (self._inbox, *self._pulls) if one]
        missing = [*self._missing, *self._forbidden, *filter(None, trouble)]
        return {"nats": "; ".join(missing), **found} if missing else found

    def end(self) -> None:
        """Stop in order."""
        self._ended.set()

    async def run(self) -> int:
        """Work until told to end; SettingsError when NATS refuses what a worker has to do."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.end)
        place = self._settings.worker
        self.port = await self._health.start(place.health_host, place.health_port)
        try:
            telemetry.log().info("worker starts", health_port=self.port, vcenters=self._settings.own_vcenters)
            self._vcenters.start()
            self._client = await self._unless_ended(
                connect(
                    self._settings,
                    on_error=self._noticed,
                    on_closed=self._closed,
                    on_reconnected=self._reconnected,
                )
            )
            if self._client:
                await self._serve(self._client)
        finally:
            self._vcenters.stop()
            await self._health.stop()
        telemetry.log().info("worker ends", status=self._status)
        return self._status

    async def _serve(self, client: Client) -> None:
        calls = Calls(client)
        await calls.open()
        threads = self._settings.worker.slots * len(self._settings.own_vcenters) * len(FUNCTIONS)
        pool = ThreadPoolExecutor(max(threads, 1), thread_name_prefix="function")
        try:
            if await self._unless_ended(self._checked(client, calls)):
                await self._take_requests(client, calls, pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if not self.abandoned:
                await asyncio.to_thread(self._sessions.close)
            await calls.close()
            await _leave(client)

    async def _checked(self, client: Client, calls: Calls) -> bool:
        """Wait until all is there; SettingsError when something is forbidden, which waiting does not mend."""
        while True:
            checking = asyncio.create_task(check(client, calls, self._settings, self._nats))
            while not checking.done():
                await asyncio.wait({checking}, timeout=0.1)
                if self._forbidden:
                    checking.cancel()
                    raise SettingsError("NATS forbids this user: " + "; ".join(self._forbidden))
            if (missing := checking.result()) != self._missing:
                say = telemetry.log().warning if missing else telemetry.log().info
                say("self-check", missing=missing)
            self._missing = missing
            if not missing:
                return True
            await asyncio.sleep(_LOOK_AGAIN)

    async def _take_requests(self, client: Client, calls: Calls, pool: ThreadPoolExecutor) -> None:
        name = f"{socket.gethostname()}-{os.getpid()}"
        outbox = Outbox(client, calls, name)
        desk = Desk(
            name=name,
            settings=self._settings,
            catalogue=self._catalogue,
            sessions=self._sessions,
            store=KvStore(calls),
            pool=pool,
            undos=self._undos,
            lease=self._nats.lease,
            fits=outbox.fits,
        )
        inbox = Inbox(client, calls, desk, outbox)
        self._inbox = inbox
        durables = [consumer_name(*one) for one in product(self._settings.own_vcenters, FUNCTIONS)]
        room = Room(self._settings.worker.slots, pause=max(2.0, len(durables) / 4))
        self._pulls = [Pull(client, calls, durable, inbox.handle, room) for durable in durables]
        beating = asyncio.create_task(inbox.beat(self._nats.heartbeat))
        telling = asyncio.create_task(inbox.queues.tell())
        pulling = [asyncio.create_task(pull.run()) for pull in self._pulls]
        ended = asyncio.create_task(self._ended.wait())
        await asyncio.wait({ended, beating, telling, *pulling}, return_when=asyncio.FIRST_COMPLETED)
        desk.stopping.set()
        for task in pulling:
            task.cancel()
        await self._wind_down(desk)
        for other in (beating, telling, ended):
            other.cancel()

    async def _wind_down(self, desk: Desk) -> None:
        """Take no more, and let what runs come to its end or to its next step."""
        for pull in self._pulls:
            with suppress(NatsError):
                await pull.stop()
        running = {task for pull in self._pulls for task in pull.running}
        telemetry.log().info("worker winds down", running=len(running))
        if running:
            _, left = await asyncio.wait(running, timeout=self._settings.worker.drain_seconds)
            self.abandoned = bool(left)
            for task in left:
                task.cancel()
        if desk.background:
            await asyncio.wait(set(desk.background), timeout=2)

    async def _unless_ended(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do something that may take for ever, or None when told to end first."""
        task, ended = asyncio.create_task(work), asyncio.create_task(self._ended.wait())
        await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if task.done():
            return task.result()
        task.cancel()
        return None

    async def _noticed(self, error: Exception) -> None:
        text = str(error)
        if "permissions violation" in text.lower():
            self._forbidden.append(text.removeprefix("nats: "))
        if self._seldom.due(text):
            telemetry.log().warning("NATS reports an error", error=text, servers=addresses(self._nats))

    async def _closed(self) -> None:
        """End: a connection that the client itself has closed never comes back."""
        if not self._ended.is_set():
            telemetry.log().error("the connection to NATS is closed for good")
            self._status = 1
            self._ended.set()

    async def _reconnected(self) -> None:
        self._seldom.anew()
        telemetry.log().info("NATS answers again", servers=addresses(self._nats))
        for pull in self._pulls:
            pull.forget()


async def _leave(client: Client) -> None:
    try:
        await client.drain()
    except NatsError:
        await client.close()
