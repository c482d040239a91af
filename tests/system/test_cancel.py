"""Requests are canceled over NATS: queued, running, done, and with a worker that is killed meanwhile."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from support.jetstream import Producer, until
from support.machines import SPEC, vms
from support.stacks import data_of, dying_worker, messages_on, producing
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.local.stack import Stack

OURS = "/DC0/vm/demo/machines/worker-1"
SECTIONS: dict[str, dict[str, object]] = {"nats": {"ack_wait_seconds": 1}, "limits": {"retry_seconds": 0.2}}


@pytest.fixture(scope="module")
def stack(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(sections=SECTIONS) as one:
        one.start_router()
        yield one


def creation(name: str) -> CloudEvent:
    return request_event("create_machine", {"machineName": name, "providerSpec": SPEC})


def cancel(event: CloudEvent) -> CloudEvent:
    return request_event("cancel_request", {"source": event.source, "id": event.id})


def code_of(event: CloudEvent) -> str:
    return str(data_of(event).get("error", {}).get("code", "OK"))


async def ends_canceled(producer: Producer, event: CloudEvent) -> None:
    assert code_of(await producer.result(event, 60)) == "Canceled"
    await producer.settled()
    assert await messages_on(producer, event) == 1


async def cloning(stack: Stack, before: int) -> None:
    await until(lambda: stack.vcenter.control.calls()["CloneVM_Task"] > before)


def test_a_create_that_runs_is_canceled_and_leaves_nothing(stack: Stack) -> None:
    before, clones = vms(stack.vcenter), stack.vcenter.control.calls()["CloneVM_Task"]
    stack.vcenter.control.delay(CloneVm=2000)
    worker = stack.start_worker()

    async def work(producer: Producer) -> None:
        event = creation("worker-1")
        await producer.publish(event)
        await cloning(stack, clones)
        assert data_of(await producer.ask(cancel(event)))["state"] == "open"
        await ends_canceled(producer, event)
        assert vms(stack.vcenter) == before
        assert data_of(await producer.ask(cancel(event)))["state"] == "done"
        stack.vcenter.control.delay(CloneVm=0)
        again = creation("worker-1")
        assert code_of(await producer.ask(again)) == "OK"
        refused = data_of(await producer.ask(cancel(again)))["error"]
        assert (refused["code"], refused["message"]) == ("FailedPrecondition", "the request has ended: done")
        gone = {"machineName": "worker-1", "providerSpec": {"tags": SPEC["tags"]}}
        assert code_of(await producer.ask(request_event("delete_machine", gone))) == "OK"

    producing(stack, work)
    worker.stop()
    assert vms(stack.vcenter) == before


def asked_over_http(stack: Stack, event: CloudEvent) -> str:
    """Cancel through the router, which shares the records of the workers: the state that the request was in."""
    headers, body = to_http(cancel(event), Mode.STRUCTURED)
    answer = httpx.post(stack.environment["HTTP_URL"], headers=headers, content=body, timeout=60)
    return str(answer.json()["data"]["state"])


def test_what_is_canceled_before_a_worker_has_seen_it_never_begins(stack: Stack) -> None:
    before, clones = vms(stack.vcenter), stack.vcenter.control.calls()["CloneVM_Task"]

    async def work(producer: Producer) -> None:
        event = creation("worker-1")
        await producer.publish(event)
        assert await asyncio.to_thread(asked_over_http, stack, event) == "absent"
        worker = stack.start_worker()
        await ends_canceled(producer, event)
        worker.stop()

    producing(stack, work)
    assert vms(stack.vcenter) == before
    assert stack.vcenter.control.calls()["CloneVM_Task"] == clones


@pytest.mark.parametrize("dies_at", [None, "undo_create_machine:1:after", "undo_create_machine:3:before"])
def test_what_a_killed_worker_was_making_is_undone_though_the_next_one_is_killed_at_that(
    stack: Stack, dies_at: str | None
) -> None:
    before = vms(stack.vcenter)

    async def killed(at: str) -> None:
        assert await asyncio.to_thread(dying_worker(stack, at).wait, 60) == -9

    async def work(producer: Producer) -> None:
        event = creation("worker-1")
        await producer.publish(event)
        await killed("create_machine:6:after")
        assert vms(stack.vcenter) == sorted([*before, OURS])
        assert await asyncio.to_thread(asked_over_http, stack, event) == "open"
        if dies_at:
            await killed(dies_at)
        worker = stack.start_worker()
        await ends_canceled(producer, event)
        worker.stop()

    producing(stack, work)
    assert vms(stack.vcenter) == before
