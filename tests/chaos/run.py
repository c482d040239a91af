"""A run from its first request to its verdict."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from chaos.blows import Blows
from chaos.compare import Result, differences, leftovers, results
from chaos.found import Found, Witness, let_claims_grow_old, look_at_vcenter
from chaos.producers import Ledger, produce_all
from chaos.schedule import Schedule
from chaos.site import Site
from support.machines import TAGS
from vsphere_events.client import Client
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS

IDLE_SECONDS = 60
"""Time without any answer, after the last blow, at which what has none is taken to be stuck."""
UNEXPECTED = (
    "function failed unexpectedly",
    "a request could not be handled",
    "cannot be rendered",
    "Traceback",
)
"""Words in a worker's log that stand for a fault of ours."""


@dataclass
class Verdict:
    """What came of a run."""

    differences: list[str]
    results: list[Result]
    happened: Counter[str]
    kills: int
    seconds: float
    durations: dict[str, list[float]] = field(default_factory=dict)
    dead: int = 0
    logs: dict[str, str] = field(default_factory=dict)


def run(schedule: Schedule, broken: str | None = None, idle: float = IDLE_SECONDS) -> Verdict:
    """Do all of it; to be called in the main thread."""
    with Site(schedule, broken) as site:
        return asyncio.run(_to_the_end(site, schedule, idle))


async def _to_the_end(site: Site, schedule: Schedule, idle: float) -> Verdict:
    try:
        return await _run(site, schedule, idle)
    finally:
        gc.collect()  # a NATS client that was closed amid an outage leaves a transport, which needs the loop to close
        await asyncio.sleep(0)


async def _run(site: Site, schedule: Schedule, idle: float) -> Verdict:
    begun, before = time.monotonic(), Found()
    await site.cluster.healthy()
    await asyncio.to_thread(look_at_vcenter, site, before)
    await asyncio.to_thread(site.set_up)
    site.start_workers()
    ledger = Ledger()
    blows = Blows(site, ledger)
    async with Witness.connected(site) as witness:
        watching = asyncio.create_task(blows.watch())
        try:
            await _go_through(site, schedule, ledger, blows, idle)
            found = await _look(site, schedule, witness)
            verdict = list(differences(schedule.requests, found, before))
            if not verdict:
                let_claims_grow_old(site)
                verdict += await _clear(site, found)
                found.leases = await witness.leases()
                await asyncio.to_thread(look_at_vcenter, site, found)
                verdict += leftovers(found, before)
        finally:
            watching.cancel()
    verdict += [*blows.died, *_unexpected(site)]
    return Verdict(
        verdict,
        list(results(schedule.requests, found).values()),
        blows.happened,
        blows.kills,
        time.monotonic() - begun,
        _durations(ledger),
        found.dead,
        {worker.log.name: worker.log.read_text("utf-8", "replace") for worker in site.workers},
    )


async def _go_through(site: Site, schedule: Schedule, ledger: Ledger, blows: Blows, idle: float) -> None:
    """Send and strike until every request has its answer, or nothing has moved for a while."""
    urls = [site.producer_urls(number) for number in range(len(site.producer_links))]
    producing = asyncio.create_task(produce_all(schedule, urls, ledger))
    striking = asyncio.create_task(blows.strike_all(schedule.blows))
    seen, since = (0, 0), time.monotonic()
    while not (producing.done() and striking.done()):
        await asyncio.sleep(0.1)
        now = (ledger.stored, ledger.answered)
        if now != seen:
            seen, since = now, time.monotonic()
        failed = [task for task in (producing, striking) if task.done() and task.exception()]
        if failed or time.monotonic() - since > idle:
            break
    for task in (producing, striking):
        if not task.done():
            task.cancel()
    outcomes = await asyncio.gather(producing, striking, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _look(site: Site, schedule: Schedule, witness: Witness) -> Found:
    """Wait until all is at rest, and read it."""
    site.vcenter.control.clear_faults()
    await site.cluster.healthy()
    found = Found(waiting=await witness.calm(), heard=witness.heard)
    found.leases = await witness.leases()
    for asked in schedule.requests:
        found.answers[asked.id] = await witness.answers(asked)
        if FUNCTIONS[asked.function].changes and (record := await witness.record(asked)):
            found.records[asked.id] = record
    found.dead = await witness.dead()
    await asyncio.to_thread(look_at_vcenter, site, found)
    return found


async def _clear(site: Site, found: Found) -> list[str]:
    """Delete every machine and volume that stands, by requests; what could not be."""
    deletes = [{"machineName": name, "providerSpec": {"tags": TAGS}} for name in found.machines]
    destroys = [{"id": name} for name in found.volumes]
    async with Client.connected(site.cluster.urls, source="/producers/chaos-clearing") as client:

        async def ask(function: str, data: dict[str, Any]) -> str | None:
            try:
                await client.request(function, data, timeout=90)
            except CallError as error:
                return f"clearing up: {function} {data}: {error}"
            return None

        told = await asyncio.gather(*(ask("delete_machine", one) for one in deletes))
        told += await asyncio.gather(*(ask("destroy_volume", one) for one in destroys))
    return [one for one in told if one]


def _unexpected(site: Site) -> list[str]:
    found = []
    for worker in site.workers:
        with suppress(FileNotFoundError):
            lines = worker.log.read_text("utf-8", "replace").splitlines()
            found += [
                f"worker {worker.number} logged: {line[:1500]}"
                for line in lines
                if any(words in line for words in UNEXPECTED)
            ]
    return found


def _durations(ledger: Ledger) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {}
    for one in ledger.sent.values():
        if one.stored_at is not None and one.answered_at is not None:
            taken.setdefault(one.asked.function, []).append(one.answered_at - one.stored_at)
    return taken
