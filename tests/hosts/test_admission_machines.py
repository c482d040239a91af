"""Bursts of creates over two workers on a simulated vCenter: its own clock tells how many clones ran at once."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.gateway import opened
from support.http_host import running, settings_of, toml, until
from support.jetstream import Producer
from support.machines import SPEC, eventually, foreign, vms
from vsphere_events.client import Client, request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.local.stack import Stack
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Session

OTHER = "templates/other"
CAPS = {"creates_per_vcenter": 4, "creates_per_template": 3, "creates_per_datastore": 4}
SECTIONS: dict[str, dict[str, Any]] = {
    "nats": {"ack_wait_seconds": 2},
    "limits": {"retry_seconds": 0.2, **CAPS},
}


@pytest.fixture
def stack(vcsim_binary: object) -> Iterator[Stack]:
    """Two templates, and clones that take 0.3 s."""
    assert vcsim_binary
    with Stack(sections=SECTIONS) as one:
        foreign(one.vcenter, "other", "/DC0/vm/templates")
        one.vcenter.govc("vm.markastemplate", "/DC0/vm/templates/other")
        one.vcenter.control.delay(CloneVm=300)
        yield one


def create(number: int, template: str = SPEC["templateVM"], **more: Any) -> CloudEvent:
    spec = SPEC | {"templateVM": template}
    return request_event("create_machine", {"machineName": f"m-{number:02}", "providerSpec": spec}, **more)


class Clones:
    """The clones that a vCenter has run: of what, from when to when by its clock."""

    def __init__(self) -> None:
        self._seen: dict[Ref, tuple[str, str, str]] = {}

    def look(self, session: Session) -> None:
        """Read what the task manager still lists."""
        manager = session.content["taskManager"]
        tasks = session.read([manager], {manager.type: ["recentTask"]})[manager].get("recentTask", [])
        paths = [f"info.{name}" for name in ("name", "entityName", "startTime", "completeTime")]
        for ref, row in session.read(tasks, {"Task": paths}).items():
            if row.get("info.name") == "CloneVm" and row.get("info.startTime"):
                span = [row.get(path, "").rstrip("Z") for path in paths[2:]]
                self._seen[ref] = (row["info.entityName"], span[0], span[1] or "9999")

    def templates(self) -> Counter[str]:
        """How many clones each had."""
        return Counter(template for template, _, _ in self._seen.values())

    def at_once(self, template: str | None = None) -> int:
        """The most that ran at one time, of one template or of all."""
        spans = [(begin, end) for name, begin, end in self._seen.values() if template in {None, name}]
        return max(sum(begin <= at < end for begin, end in spans) for at, _ in spans)


@contextmanager
def watched(vcenter: SimulatedVCenter) -> Iterator[Clones]:
    """Look at the tasks until the block ends, and once more."""
    clones, ended = Clones(), threading.Event()
    with opened(vcenter) as session:

        def watch() -> None:
            while not ended.wait(0.1):
                clones.look(session)

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield clones
        finally:
            ended.set()
            thread.join()
            clones.look(session)


def producing(stack: Stack, work: Callable[[Producer], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Client.connected(stack.nats.url) as client:
            producer = Producer(client.connection)
            await producer.listen()
            return await work(producer)

    return asyncio.run(run())


async def attempts_of(producer: Producer, events: list[CloudEvent]) -> Counter[int]:
    """How many attempts the records say."""
    calls = Calls(producer.client)
    await calls.open()
    store = KvStore(calls)
    entries = [await store.get(Bucket.OPERATIONS, f"default.{event.id}") for event in events]
    await calls.close()
    return Counter(Record.load(entry.value).attempts for entry in entries if entry)


def powered_on(vcenter: SimulatedVCenter) -> list[str]:
    found = vcenter.govc("find", "/DC0/vm/demo", "-type", "m", "-runtime.powerState", "poweredOn")
    return sorted(found.split("\n")[:-1])


def test_m06_a_burst_of_creates_never_runs_more_clones_than_the_caps(stack: Stack) -> None:
    """Sixty over two workers and two templates: all are made in one attempt each, all powered on."""
    before = vms(stack.vcenter)
    for _ in range(2):
        stack.start_worker()
    events = [
        create(number, OTHER if number % 3 == 0 else SPEC["templateVM"], id=f"req-{number}")
        for number in range(60)
    ]

    async def work(producer: Producer) -> Counter[int]:
        await asyncio.gather(*(producer.publish(event) for event in events))
        await producer.settled(50)
        kinds = Counter([(await producer.result(event)).type for event in events])
        assert kinds == {"io.vspherefunctions.create_machine.succeeded.v1": 60}
        assert not producer.on("dead")
        return await attempts_of(producer, events)

    with watched(stack.vcenter) as clones:
        assert producing(stack, work) == {1: 60}
    ours = sorted(f"/DC0/vm/demo/machines/m-{number:02}" for number in range(60))
    assert vms(stack.vcenter) == sorted([*before, *ours])
    assert powered_on(stack.vcenter) == ours
    counts = clones.templates()
    assert sorted(counts.values()) == [20, 41], "the second template was itself a clone of the first"
    assert 3 <= clones.at_once() <= 4
    assert max(map(clones.at_once, counts)) == 3


def test_over_http_what_would_have_to_wait_is_asked_for_again_later(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    vcenter.control.delay(CloneVm=2000)
    limits = toml("limits", {"creates_per_datastore": 1})
    first, second = create(1), create(2)
    with running(tmp_path, settings_of(vcenter, more=limits)) as host, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(host.call, first)
        eventually(lambda: vcenter.control.calls()["CloneVM_Task"] == 1, tries=2000)
        asked_later = host.send(second)
        assert asked_later.status_code == 503
        assert int(asked_later.headers["Retry-After"]) >= 1
        assert "as many creates are in flight" in asked_later.json()["error"]["message"]
        assert answer.result().type.endswith(".succeeded.v1")
        until(lambda: host.send(second).status_code == 200)
        assert host.call(second).type.endswith(".succeeded.v1")
    assert vcenter.control.calls()["CloneVM_Task"] == 2
