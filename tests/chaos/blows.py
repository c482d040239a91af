"""What befalls the cluster: carried out here, drawn in `chaos.schedule`."""

from __future__ import annotations

import asyncio
import http.client
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pyVmomi import vim, vmodl

from chaos.producers import Ledger
from chaos.schedule import FAULTS, Blow
from chaos.site import LEASE, Site, Worker
from chaos.toxiproxy import Link
from support.soap import Soap

PAUSE = 0.1
TRIES = 5
LATENCY = 150
"""Milliseconds."""
KILLS = ("kill worker", "term worker", "kill node", "kill leader", "struck worker")


class Blows:
    """Strikes as the schedule says; of the NATS nodes one at a time, the next when all are healthy again.

    `happened` counts what was done. `died` are the workers that ended though nobody had struck them.
    """

    def __init__(self, site: Site, ledger: Ledger) -> None:
        self._site = site
        self._ledger = ledger
        self._workers = [asyncio.Lock() for _ in site.workers]
        self._nodes = asyncio.Lock()
        self._ways: dict[int, asyncio.Lock] = {}
        self._woken: set[Path] = set()
        self._counted: set[Path] = set()
        self.happened: Counter[str] = Counter()
        self.died: list[str] = []

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(self.happened[kind] for kind in KILLS)

    async def strike_all(self, blows: Iterable[Blow]) -> None:
        """Strike, each in its time, and come back when all are over."""
        async with asyncio.TaskGroup() as group:
            for blow in blows:
                await self._ledger.reached(blow.after)
                group.create_task(self._strike(blow))

    async def watch(self) -> None:
        """Wake the workers that stopped themselves and start those anew that ended, until cancelled."""
        while True:
            for stopped in set(self._site.struck.glob("*.stop")) - self._woken:
                self._woken.add(stopped)
                self.happened["struck worker (stopped)"] += 1
                asyncio.get_running_loop().call_later(3 * LEASE, self._wake, stopped)
            for worker in self._site.workers:
                if worker.ended is not None and not self._workers[worker.number].locked():
                    self._revive(worker)
            await asyncio.sleep(PAUSE)

    def _wake(self, stopped: Path) -> None:
        stopped.with_suffix(".woken").touch()
        pid = stopped.read_text()
        for worker in self._site.workers:
            if worker.process and str(worker.process.pid) == pid:
                worker.tell(signal.SIGCONT)

    def _revive(self, worker: Worker) -> None:
        """Start a worker again that has ended by itself, as its schedule wanted it or not."""
        assert worker.process
        killed = set(self._site.struck.glob("*.kill")) - self._counted
        own = {one for one in killed if one.read_text() == str(worker.process.pid)}
        self._counted |= own
        if own:
            self.happened["struck worker"] += 1
        else:
            self.died.append(f"worker {worker.number} ended by itself, status {worker.ended}")
        worker.start()

    async def _strike(self, blow: Blow) -> None:
        strikes: dict[str, Callable[[Blow], Awaitable[None]]] = {
            "kill worker": self._kill_worker,
            "term worker": self._term_worker,
            "stop worker": self._stop_worker,
            "kill node": self._kill_node,
            "kill leader": self._kill_node,
            "stop node": self._stop_node,
            "drop sessions": self._drop_sessions,
            "drop reply": self._drop_reply,
            "http status": self._http_status,
            "fault": self._fault,
        }
        strike = strikes.get(blow.kind, self._disturb)
        await strike(blow)
        self.happened[blow.kind] += 1

    async def _kill_worker(self, blow: Blow) -> None:
        async with self._workers[blow.target]:
            worker = self._site.workers[blow.target]
            worker.kill()
            await asyncio.sleep(blow.seconds / 2)
            worker.start()

    async def _term_worker(self, blow: Blow) -> None:
        async with self._workers[blow.target]:
            worker = self._site.workers[blow.target]
            worker.tell(signal.SIGTERM)
            if worker.process:
                await asyncio.to_thread(worker.process.wait)
            worker.start()

    async def _stop_worker(self, blow: Blow) -> None:
        async with self._workers[blow.target]:
            worker = self._site.workers[blow.target]
            worker.tell(signal.SIGSTOP)
            await asyncio.sleep(LEASE + blow.seconds)
            worker.tell(signal.SIGCONT)

    async def _kill_node(self, blow: Blow) -> None:
        cluster = self._site.cluster
        async with self._nodes:
            await cluster.healthy()
            leader = await cluster.leader_of(blow.detail[0]) if blow.detail else None
            node = cluster.nodes[blow.target if leader is None else leader]
            node.kill()
            await asyncio.sleep(blow.seconds)
            node.start()
            await cluster.healthy()

    async def _stop_node(self, blow: Blow) -> None:
        cluster = self._site.cluster
        async with self._nodes:
            await cluster.healthy()
            cluster.freeze(blow.target)
            try:
                await asyncio.sleep(blow.seconds)
            finally:
                cluster.thaw(blow.target)
            await cluster.healthy()

    async def _drop_sessions(self, _blow: Blow) -> None:
        await asyncio.to_thread(_end_sessions, self._site)

    async def _drop_reply(self, blow: Blow) -> None:
        self._site.replies.drop_reply(blow.detail[0])

    async def _http_status(self, _blow: Blow) -> None:
        self._site.vcenter.control.status(503, count=2)

    async def _fault(self, blow: Blow) -> None:
        method, scope, fault = next(one for one in FAULTS if one == blow.detail)
        self._site.vcenter.control.add_fault(
            method, fault, scope="task" if scope == "task" else "call", count=1
        )

    async def _disturb(self, blow: Blow) -> None:
        """Cut, stall or slow the ways of a worker, a producer or to the vCenter."""
        what, _, whose = blow.kind.partition(" ")
        async with self._way(whose, blow.target) as links:
            for link in links:
                if what == "stall":
                    link.stall()
                elif what == "slow":
                    link.slow(LATENCY)
                else:
                    link.cut()
            await asyncio.sleep(blow.seconds if what != "cut" else PAUSE)
            for link in links:
                link.heal()

    @asynccontextmanager
    async def _way(self, whose: str, number: int) -> AsyncIterator[list[Link]]:
        site = self._site
        links = {
            "worker": lambda: site.worker_links[number],
            "producer": lambda: site.producer_links[number],
            "vcenter": lambda: [site.vcenter_link],
        }[whose]()
        async with self._ways.setdefault(links[0].port, asyncio.Lock()):
            yield links


def _end_sessions(site: Site) -> None:
    """End every session at the vCenter but the one that does it; it may be struck by the blows of others itself."""
    for _ in range(TRIES):
        with suppress(vmodl.MethodFault, http.client.HTTPException, OSError), Soap(site.vcenter) as soap:
            manager = soap.content.sessionManager
            own = soap.read(manager, "currentSession")["currentSession"].key
            for one in soap.read(manager, "sessionList")["sessionList"]:
                if one.key != own:
                    with suppress(vim.fault.NotFound):
                        manager.TerminateSession([one.key])
            return
