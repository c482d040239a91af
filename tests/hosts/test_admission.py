"""Caps on creates in flight on a real NATS server: what waits stays there, in order, and can tell its place."""

import asyncio
import signal
import threading
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from support.functions import SPEC, World, request
from support.jetstream import Producer, on, producer, until, working
from support.worker_process import FileWorld, launch
from vsphere_events import json_text
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.queue import QueueState
from vsphere_events.subjects import queue_subject
from vsphere_functions.context import Context
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket


class Counted(World):
    """Creates that take a while, or until `go`; `most` is how many were in flight at once."""

    def __init__(self, seconds: float = 0.05) -> None:
        super().__init__(between=self._work)
        self.seconds = seconds
        self.go = threading.Event()
        self.now = self.most = 0

    def _work(self, _ctx: Context) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        if self.seconds:
            time.sleep(self.seconds)
        else:
            self.go.wait(100)
        with self.lock:
            self.now -= 1


def of(number: int, template: str = "template", **attributes: Any) -> CloudEvent:
    spec = SPEC | {"templateVM": template}
    data = {"machineName": f"m-{number:02}", "providerSpec": spec}
    return request(data=data, **attributes)


async def attempts(one: Producer, events: list[CloudEvent]) -> Counter[int]:
    calls = Calls(one.client)
    await calls.open()
    entries = [await KvStore(calls).get(Bucket.OPERATIONS, f"default.{event.id}") for event in events]
    await calls.close()
    return Counter(Record.load(entry.value).attempts for entry in entries if entry)


def states(one: Producer) -> list[QueueState]:
    subject = queue_subject("default", "create_machine")
    return [QueueState.parse(json_text.loads(said.data)) for said in one.heard if said.subject == subject]


def test_never_more_are_in_flight_than_the_cap_over_two_workers_and_each_takes_one_attempt(
    nats_server: NatsServer,
) -> None:
    async def run() -> None:
        world, configured = Counted(), on(nats_server, creates_per_vcenter=3)
        events = [of(number) for number in range(30)]
        async with producer(nats_server, configured) as one, working(configured, world, 2):
            await asyncio.gather(*(one.publish(event) for event in events))
            await one.settled()
            assert await attempts(one, events) == {1: 30}
            assert not one.on("dead")
        assert len(world.effects) == 30
        assert 2 <= world.most <= 3

    asyncio.run(run())


def test_the_oldest_go_first(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured = Counted(0), on(nats_server, slots=8, creates_per_vcenter=2)
        async with producer(nats_server, configured) as one, working(configured, world):
            sequences = [await one.publish(of(number)) for number in range(2)]
            await until(lambda: world.most == 2)
            sequences += [await one.publish(of(number)) for number in range(2, 20)]
            begun = QueueState(sequence=sequences[1], waiting=18)
            await until(lambda: begun in states(one)[-1:])
            said = states(one)[-1]
            assert [said.ahead_of(sequence) for sequence in sequences[:4]] == [None, None, 0, 1]
            assert said.ahead_of(sequences[-1]) == 17
            world.go.set()
            await one.settled()
            await until(lambda: states(one)[-1].waiting == 0)
            assert states(one)[-1].ahead_of(sequences[-1]) is None
        made = [int(effect.rpartition("-")[2]) for effect in world.effects]
        assert max(abs(number - place) for place, number in enumerate(made)) < 10, made

    asyncio.run(run())


def test_a_template_that_is_busy_holds_up_no_other(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured = Counted(0), on(nats_server, creates_per_template=1, creates_per_vcenter=3)
        async with producer(nats_server, configured) as one, working(configured, world):
            waiting = [of(number) for number in range(12)]
            await asyncio.gather(*(one.publish(event) for event in waiting))
            await until(lambda: world.now == 1)
            other = of(99, template="other")
            await one.publish(other)
            await until(lambda: world.now == 2)
            assert world.effects[1:] == ["create m-99"]
            world.go.set()
            await one.result(other)
            await one.settled()
        assert len(world.effects) == 13

    asyncio.run(run())


def test_waiting_ends_with_the_expirytime_and_by_nothing_else(nats_server: NatsServer) -> None:
    async def run() -> None:
        world = Counted(0)
        configured = on(nats_server, creates_per_datastore=1, busy_seconds=0.1, attempts=1)
        async with producer(nats_server, configured) as one, working(configured, world):
            first, second = of(1), of(2)
            soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
            third = of(3, extensions={"expirytime": soon})
            for event in (first, second, third):
                await one.publish(event)
            ended = await one.result(third)
            assert ended.data["error"]["code"] == "DeadlineExceeded"
            assert world.now == 1, "the first still runs"
            assert await one.stored(second) is None, "longer than a busy machine is waited for"
            world.go.set()
            assert (await one.result(second)).data["providerID"]
            await one.settled()
            assert not one.on("dead")
        assert sorted(world.effects) == ["create m-01", "create m-02"]

    asyncio.run(run())


def test_what_a_killed_worker_held_comes_free_with_the_lease(nats_server: NatsServer, tmp_path: Path) -> None:
    """E14, and the slots: its own create goes on, and another that has waited is made, too."""

    async def run() -> None:
        world, configured = FileWorld(tmp_path), on(nats_server, ack_wait=1)
        cap = {"VSPHERE_FUNCTIONS_LIMITS__CREATES_PER_TEMPLATE": "1"}
        (world.folder / "blind").touch()
        async with producer(nats_server, configured) as one:
            processes = [launch(configured, tmp_path, **cap)]
            try:
                first, second = of(1), of(2)
                await one.publish(first)
                await until(lambda: len(one.on("progress")) == 1)
                await one.publish(second)
                await until(partial(waits, one, 1))
                processes[0].send_signal(signal.SIGKILL)
                processes.append(launch(configured, tmp_path, **cap))
                (world.folder / "blind").unlink()
                for event in (first, second):
                    assert (await one.result(event, 30)).data["providerID"]
                await one.settled()
            finally:
                for process in processes:
                    process.kill()
                    process.wait()
            assert sorted(world.effects()) == ["create m-01", "create m-02", "resumed cloned"]
            assert (await attempts(one, [second])) == {1: 1}

    asyncio.run(run())


def waits(one: Producer, count: int) -> bool:
    return any(said.waiting == count for said in states(one))
