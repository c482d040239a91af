"""Orphans are looked for and deleted over NATS, while creates run and workers die."""

import asyncio
from collections.abc import Iterator

import pytest

from support.jetstream import Producer, until
from support.machines import SPEC, TAGS, vms
from support.stacks import data_of, dying_worker, messages_on, producing
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.stack import Stack

FOLDER = "/DC0/vm/demo/machines"


@pytest.fixture
def stack(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(sections={"nats": {"ack_wait_seconds": 1}, "limits": {"retry_seconds": 0.2}}) as one:
        yield one


def creation(name: str) -> CloudEvent:
    return request_event("create_machine", {"machineName": name, "providerSpec": SPEC})


def sweep(*known: str, delete: tuple[str, ...] = ()) -> CloudEvent:
    machines = [{"machineName": one} for one in known]
    data = {"providerSpec": {"tags": TAGS}, "machines": machines, "minAgeSeconds": 0, "delete": [*delete]}
    return request_event("find_orphans", data)


def test_a_sweep_spares_what_is_being_made_and_is_ended_by_the_next_worker(stack: Stack) -> None:
    before = vms(stack.vcenter)

    async def work(producer: Producer) -> None:
        worker = stack.start_worker()
        for number in (1, 2, 3):
            await producer.ask(creation(f"worker-{number}"))
        stack.vcenter.control.delay(CloneVm=3000)
        running = creation("worker-4")
        await producer.publish(running)
        await until(lambda: stack.vcenter.control.calls()["CloneVM_Task"] == 4)
        orphans = data_of(await producer.ask(sweep("worker-1", "worker-2")))["orphans"]
        assert [one["machineName"] for one in orphans] == ["worker-3"]
        assert data_of(await producer.result(running, 60))["nodeName"] == "worker-4"
        worker.stop()
        wanted = sweep("worker-1", "worker-2", "worker-4", delete=(orphans[0]["id"],))
        dying = dying_worker(stack, "find_orphans:2:after")
        await producer.publish(wanted)
        assert await asyncio.to_thread(dying.wait, 60) == -9
        worker = stack.start_worker()
        swept = data_of(await producer.result(wanted, 60))
        assert swept["deleted"] == [orphans[0]["id"]]
        assert await messages_on(producer, wanted, "find_orphans") == 1
        worker.stop()

    producing(stack, work)
    left = [f"{FOLDER}/worker-{number}" for number in (1, 2, 4)]
    assert vms(stack.vcenter) == sorted([*before, *left])
