"""A worker is killed (kill -9) at each step of create and delete in turn (M08, E14), or told to end (E13)."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.jetstream import Producer, until
from support.machines import SPEC, TAGS, vms
from support.mortal_workers import mortal_stack
from support.soap import Soap
from support.stacks import data_of, messages_on, producing
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.stack import Stack

STEPS_OF_CREATE = 8
STEPS_OF_DELETE = 6
SECTIONS: dict[str, dict[str, object]] = {"nats": {"ack_wait_seconds": 1}, "limits": {"retry_seconds": 0.2}}


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def stack(vcsim_binary: object, deaths: Path) -> Iterator[Stack]:
    assert vcsim_binary
    with mortal_stack(deaths, 2, **SECTIONS) as one:
        yield one


@pytest.fixture
def without_workers(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(sections=SECTIONS) as one:
        yield one


async def taken_over(producer: Producer, event: CloudEvent) -> CloudEvent:
    """Let a worker die of the request and another one end it; the one result that there is."""
    await producer.publish(event)
    result = await producer.result(event, 60)
    await producer.settled()
    function = event.type.split(".")[2]
    assert await messages_on(producer, event, function) == 1
    assert result.type.endswith(f".{function}.succeeded.v1")
    return result


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", range(1, STEPS_OF_CREATE + 1))
def test_m08_a_create_is_ended_by_the_next_worker(stack: Stack, deaths: Path, step: int, when: str) -> None:
    name, before = f"create-machine-{step}-{when}", vms(stack.vcenter)
    stack.vcenter.control.reset_calls()

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", {"machineName": name, "providerSpec": SPEC})
        result = await taken_over(producer, event)
        assert json.loads(data_of(result)["lastKnownState"])["phase"] == "ready"

    producing(stack, work)
    assert (deaths / name).exists()
    assert vms(stack.vcenter) == sorted([*before, f"/DC0/vm/demo/machines/{name}"])
    # Killed before the clone was recorded, the next worker may ask for it again: the name is taken then.
    assert stack.vcenter.control.calls()["CloneVM_Task"] <= (2 if (step, when) == (1, "before") else 1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", range(1, STEPS_OF_DELETE + 1))
def test_m08_a_delete_is_ended_by_the_next_worker_and_reports_its_disks(
    stack: Stack, deaths: Path, step: int, when: str
) -> None:
    name, before = f"delete-machine-{step}-{when}", vms(stack.vcenter)
    volume = f"[we ird (1)] vols-{step}-{when}/data.vmdk"

    async def work(producer: Producer) -> None:
        await producer.ask(request_event("create_machine", {"machineName": name, "providerSpec": SPEC}))
        with Soap(stack.vcenter) as soap:
            soap.make_folder(volume.rpartition("/")[0])
            soap.create_disk(volume)
            soap.attach(soap.find(f"/DC0/vm/demo/machines/{name}"), volume)
        event = request_event("delete_machine", {"machineName": name, "providerSpec": {"tags": TAGS}})
        result = await taken_over(producer, event)
        assert [one["vmdkPath"] for one in data_of(result)["detachedVolumes"]] == [volume]

    producing(stack, work)
    assert (deaths / name).exists()
    assert vms(stack.vcenter) == before
    with Soap(stack.vcenter) as soap:
        assert soap.disk_uuid(volume)


def test_e13_a_create_whose_worker_is_told_to_end_is_ended_by_the_next_one(without_workers: Stack) -> None:
    """In the middle of its clone: that goes on, and the next worker waits for it."""
    stack = without_workers
    before, control = vms(stack.vcenter), stack.vcenter.control

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", {"machineName": "worker-told", "providerSpec": SPEC})
        first = stack.start_worker()
        await producer.publish(event)
        await until(lambda: control.calls()["CloneVM_Task"])
        first.process.terminate()
        assert await asyncio.to_thread(first.process.wait, 60) == 0
        assert await producer.stored(event) is None
        second = stack.start_worker()
        assert "providerID" in data_of(await producer.result(event, 60))
        await producer.settled(60)
        second.stop()
        assert await messages_on(producer, event) == 1

    control.reset_calls()
    control.delay(CloneVm=3000)
    producing(stack, work)
    control.delay(CloneVm=0)
    assert vms(stack.vcenter) == sorted([*before, "/DC0/vm/demo/machines/worker-told"])
    assert control.calls()["CloneVM_Task"] == 1
