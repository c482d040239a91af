"""A burst of creates over some workers, with slow clones: how long it takes, and how many clones ran at once.

M06 at its full size: 1,000 creates, none lost, none left powered off, never more clones than the caps.
"""

import argparse
import asyncio
import os
import platform
import time
from collections import Counter

from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from vsphere_events import json_text
from vsphere_events.client import Client, request_event
from vsphere_events.envelope import Mode, to_nats
from vsphere_events.queue import QueueState
from vsphere_events.subjects import queue_subject, request_subject
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Stack
from vsphere_functions.vsphere.session import Endpoint, Session

REQUESTS = request_subject("default", "create_machine")
RESULTS = "vsphere.result.default.create_machine.*"


async def burst(url: str, count: int) -> Counter[str]:
    """Publish all at once, print how the queue goes, and count the results by type."""
    ended: Counter[str] = Counter()
    async with Client.connected(url) as client:
        nats: Nats = client.connection

        async def hear(message: Msg) -> None:
            ended[(message.headers or {})["ce-type"]] += 1

        async def hear_queue(message: Msg) -> None:
            said = QueueState.parse(json_text.loads(message.data))
            print(f"\r{sum(ended.values()):5} done, {said.waiting:5} wait ", end="", flush=True)

        await nats.subscribe(RESULTS, cb=hear)
        await nats.subscribe(queue_subject("default", "create_machine"), cb=hear_queue)
        data = example("create_machine")
        js = nats.jetstream(timeout=30)
        for first in range(0, count, 100):
            events = (
                request_event("create_machine", data | {"machineName": f"m-{number}"})
                for number in range(first, min(first + 100, count))
            )
            messages = (to_nats(event, Mode.BINARY) for event in events)
            await asyncio.gather(*(js.publish(REQUESTS, body, headers=headers) for headers, body in messages))
        while sum(ended.values()) < count:  # noqa: ASYNC110 - it is in another process
            await asyncio.sleep(0.1)
    return ended


class Clones:
    """The spans in which a vCenter ran clones, read from its tasks while it still lists them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spans: dict[object, tuple[str, str]] = {}

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(0.2)

    def most(self) -> int:
        """Say how many ran at once, at most."""
        marks = [(begin, 1) for begin, _ in self._spans.values()] + [
            (end, -1) for _, end in self._spans.values()
        ]
        now = most = 0
        for _, step in sorted(marks):
            now += step
            most = max(most, now)
        return most

    def _look(self) -> None:
        manager = self._session.content["taskManager"]
        tasks = self._session.read([manager], {manager.type: ["recentTask"]})[manager].get("recentTask", [])
        paths = ["info.name", "info.startTime", "info.completeTime"]
        for ref, row in self._session.read(tasks, {"Task": paths}).items():
            if row.get("info.name") == "CloneVm" and row.get("info.startTime"):
                end = row.get("info.completeTime", "9999").rstrip("Z")
                self._spans[ref] = (row["info.startTime"].rstrip("Z"), end)


async def watched(stack: Stack, count: int) -> tuple[Counter[str], int]:
    """Run the burst, and count clones meanwhile."""
    vcenter = stack.vcenter
    session = Session(Endpoint(vcenter.url, ca_file=vcenter.ca_file), vcenter.username, vcenter.password)
    clones = Clones(session)
    watching = asyncio.create_task(clones.watch())
    try:
        ended = await burst(stack.nats.url, count)
    finally:
        watching.cancel()
        session.close()
    return ended, clones.most()


def main() -> None:
    """Measure one burst."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--creates", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clone-ms", type=int, default=300)
    parser.add_argument("--cap", type=int, default=8)
    asked = parser.parse_args()
    caps = {f"creates_per_{what}": asked.cap for what in ("vcenter", "template", "datastore")}
    with Stack(sections={"limits": caps}) as stack:
        stack.vcenter.control.delay(CloneVm=asked.clone_ms)
        for _ in range(asked.workers):
            stack.start_worker()
        begun = time.perf_counter()
        ended, most = asyncio.run(watched(stack, asked.creates))
        seconds = time.perf_counter() - begun
        on = stack.vcenter.govc("find", "/DC0/vm/demo", "-type", "m", "-runtime.powerState", "poweredOn")
    print(
        f"\r{asked.creates} creates, {asked.workers} workers, clones of {asked.clone_ms} ms, caps of {asked.cap}"
    )
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"results              {dict(ended)}")
    print(f"powered on           {len(on.split())}")
    print(f"clones at once       {most} at most")
    print(
        f"creates a second     {asked.creates / seconds:.1f} (clones alone: {asked.cap * 1000 / asked.clone_ms:.1f})"
    )


if __name__ == "__main__":
    main()
