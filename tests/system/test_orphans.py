"""Orphans are looked for and deleted over NATS, while creates run and workers die."""

import asyncio
from collections.abc import Iterator

import pytest

from support.jetstream import Producer, until
from support.machines import SPEC, TAGS, info, vms
from support.stacks import data_of, dying_worker, messages_on, producing
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.stack import Stack

FOLDER = "/DC0/vm/demo/machines"


@pytest.fixture
def stack(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(
        sections={"nats": {"ack_wait_seconds": 1}, "limits": {"retry_seconds": 0.2, "attempts": 8}}
    ) as one:
        yield one


def creation(name: str, **spec: object) -> CloudEvent:
    return request_event("create_machine", {"machineName": name, "providerSpec": {**SPEC, **spec}})


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


def test_a_sweep_spares_what_one_create_makes_when_another_one_of_the_name_has_ended(stack: Stack) -> None:
    """The first is between two tries, its machine half built; the second does not fit it and has failed for good."""

    async def work(producer: Producer) -> None:
        worker = stack.start_worker()
        await producer.ask(creation("worker-1"))
        await producer.ask(creation("worker-2"))
        stack.vcenter.control.add_fault("PowerOnVM_Task", "HostCommunication")
        first = creation("worker-3")
        await producer.publish(first)
        await until(lambda: stack.vcenter.control.calls()["PowerOnVM_Task"] > 2)
        second = data_of(await producer.ask(creation("worker-3", numCpus=4)))
        assert second["error"]["code"] == "AlreadyExists"
        vm = info(stack.vcenter, f"{FOLDER}/worker-3")
        named = f"machine/{vm['self']['value']}/{vm['config']['uuid']}/worker-3"
        swept = data_of(await producer.ask(sweep("worker-1", "worker-2", delete=(named,))))
        assert (swept["orphans"], swept["deleted"]) == ([], [])
        stack.vcenter.control.clear_faults()
        assert data_of(await producer.result(first, 90))["nodeName"] == "worker-3"
        worker.stop()

    producing(stack, work)
