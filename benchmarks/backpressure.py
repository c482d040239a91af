"""A burst of requests that queues in NATS: a worker's memory before, during and after, its caps, and another vCenter.

A fifth of the requests create machines, the others ask about them, stop them, or ask what a create would be refused
for, all published at once; the clones of the first vCenter are slow. Meanwhile the second one is asked for a machine's
status again and again.
"""

import argparse
import asyncio
import os
import platform
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from creates import Clones
from nats.aio.msg import Msg

from vsphere_events.client import Client, request_event
from vsphere_events.envelope import Mode, to_nats
from vsphere_events.error import CallError
from vsphere_events.subjects import request_subject
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Server, Stack
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.session import Endpoint, Session

LIFE = ("create_machine", "get_machine_status", "shut_down_machine", "validate_machine", "get_machine_status")
EVERY = 500
"""Requests between two looks at the memory; all threads stand before the first of them."""


class Memory:
    """The resident memory of a worker over time, in MiB."""

    def __init__(self, worker: Server) -> None:
        self._status = Path(f"/proc/{worker.process.pid}/status")
        self.most = 0.0
        self.seen: list[tuple[int, float]] = []
        """How many requests were done, and the memory then: about every 500."""

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            self.most = max(self.most, self.now())
            await asyncio.sleep(0.2)

    def now(self) -> float:
        """Read it."""
        row = next(line for line in self._status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(row.split()[1]) / 1024

    def note(self, done: int) -> None:
        """Show it, and keep it, when 500 more requests are done."""
        if done // EVERY > (self.seen[-1][0] // EVERY if self.seen else 0):
            self.seen.append((done, self.now()))
            print(f"\r{done:6} done {self.seen[-1][1]:6.1f} MiB", flush=True)

    def growth(self, after: float) -> str:
        """Say by how much it has grown since all threads stand, in the end and at most."""
        if not self.seen:
            return f"not said of a burst of less than {EVERY}"
        done, stood = self.seen[0]
        end, most = (100 * (value / stood - 1) for value in (after, self.most))
        return f"{end:+.1f} % in the end, {most:+.1f} % at most, from {stood:.1f} MiB with {done} done"


def requests(count: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Spell the lives of as many machines as there are requests for."""
    for number in range(count):
        function = LIFE[number % len(LIFE)]
        yield function, example(function, f"m-{number // len(LIFE)}")


async def burst(client: Client, count: int, memory: Memory) -> tuple[Counter[str], float]:
    """Publish all at once, and count the results by kind; when the last one was published."""
    ended: Counter[str] = Counter()

    async def hear(message: Msg) -> None:
        ended[(message.headers or {})["ce-type"].split(".")[-2]] += 1

    await client.connection.subscribe("vsphere.result.default.*.*", cb=hear)
    js, begun = client.connection.jetstream(timeout=30), time.perf_counter()
    asked = list(requests(count))
    for first in range(0, count, 100):
        messages = (
            (request_subject("default", function), *to_nats(request_event(function, data), Mode.BINARY))
            for function, data in asked[first : first + 100]
        )
        await asyncio.gather(*(js.publish(place, body, headers=headers) for place, headers, body in messages))
    published = time.perf_counter() - begun
    while sum(ended.values()) < count:
        memory.note(sum(ended.values()))
        print(f"\r{sum(ended.values()):6} done ", end="", flush=True)
        await asyncio.sleep(0.5)
    memory.note(count)
    return ended, published


async def ask_the_other(client: Client, taken: list[float]) -> None:
    """Ask the second vCenter for a status twice a second, until cancelled; how long each answer took."""
    while True:
        begun = time.perf_counter()
        try:
            await client.get_machine_status(example("get_machine_status"), vcenter="other")
        except CallError:
            taken.append(time.perf_counter() - begun)
        await asyncio.sleep(0.5)


async def measure(stack: Stack, worker: Server, count: int) -> None:
    """Run the burst, and print what was seen."""
    vcenter, memory, others = stack.vcenter, Memory(worker), list[float]()
    session = Session(Endpoint(vcenter.url, ca_file=vcenter.ca_file), vcenter.username, vcenter.password)
    clones = Clones(session)
    async with Client.connected(stack.nats.url) as client:
        alone = asyncio.create_task(ask_the_other(client, quiet := list[float]()))
        await asyncio.sleep(5)
        alone.cancel()
        before, begun = memory.now(), time.perf_counter()
        beside = [clones.watch(), memory.watch(), ask_the_other(client, others)]
        tasks = [asyncio.create_task(one) for one in beside]
        ended, published = await burst(client, count, memory)
        seconds = time.perf_counter() - begun
        for task in tasks:
            task.cancel()
        await asyncio.sleep(5)
    session.close()
    print(f"\r{count} requests, published in {published:.1f} s, done in {seconds:.0f} s: {dict(ended)}")
    after = memory.now()
    print(f"memory of the worker, MiB   before {before:.0f}, most {memory.most:.0f}, after {after:.0f}")
    print(f"its growth                  {memory.growth(after)}")
    print(f"clones at once              {clones.most()} at most")
    print(
        f"the other vCenter, median   {1000 * statistics.median(others):.0f} ms, longest {1000 * max(others):.0f} ms"
    )
    print(f"and before the burst        {1000 * statistics.median(quiet):.0f} ms")


def main() -> None:
    """Measure one burst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--clone-ms", type=int, default=300)
    parser.add_argument("--cap", type=int, default=8)
    asked = parser.parse_args()
    caps = {f"creates_per_{what}": asked.cap for what in ("vcenter", "template", "datastore")}
    with SimulatedVCenter() as other:
        second = {"url": other.url, "secret": "simulator", "ca_file": str(other.ca_file)}
        with Stack(sections={"limits": caps, "vcenters.other": second}) as stack:
            stack.vcenter.control.delay(CloneVm=asked.clone_ms)
            print(f"one worker, clones of {asked.clone_ms} ms, caps of {asked.cap}")
            print(
                f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
            )
            asyncio.run(measure(stack, stack.start_worker(), asked.requests))


if __name__ == "__main__":
    main()
