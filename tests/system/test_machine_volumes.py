"""Volumes of machines by events: several workers, and requests that want the same volume at the same time."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from support import machines, volumes
from support.jetstream import Producer, until
from support.machines import SPEC, TAGS
from support.stacks import data_of, producing
from support.volumes import INSTALLATION, with_stores
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.stack import Stack

SECTIONS: dict[str, dict[str, Any]] = {
    "nats": {"ack_wait_seconds": 2},
    "limits": {"retry_seconds": 0.2},
    "stores.default": {"installation": INSTALLATION},
}
LINK = "vsphere-volume://default/default/data-1"
DISK = f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes/data-1/data-1.vmdk"


@pytest.fixture
def stack(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(sections=SECTIONS) as one:
        one.start_worker()
        one.start_worker()
        yield one


def create(name: str, **volume: str) -> CloudEvent:
    return request_event(
        "create_machine", {"machineName": name, "providerSpec": SPEC | {"volumes": [volume]}}
    )


def about(function: str, name: str, **more: str) -> CloudEvent:
    return request_event(function, {"machineName": name, "providerSpec": {"tags": TAGS}, **more})


def test_v29_of_two_creates_at_once_one_gets_the_volume_and_a_delete_gives_it_back(stack: Stack) -> None:
    """The second waits for the volume, however it names it, and is told who has it before anything is cloned."""
    stack.vcenter.control.delay(CloneVm=500)

    async def work(producer: Producer) -> None:
        await producer.ask(request_event("create_volume", {"id": "data-1"}))
        both = [create("worker-1", id="data-1"), create("worker-2", vmdkPath=DISK)]
        results = await asyncio.gather(*(producer.ask(one) for one in both))
        (won,) = [data_of(one) for one in results if one.type.endswith(".succeeded.v1")]
        (lost,) = [data_of(one) for one in results if one.type.endswith(".failed.v1")]
        assert lost["error"]["code"] == "FailedPrecondition"
        assert lost["error"]["details"][0]["candidates"] == [won["nodeName"]]
        assert stack.vcenter.control.calls()["CloneVM_Task"] == 1
        destroyed = await producer.ask(request_event("destroy_volume", {"selfLink": LINK}))
        assert data_of(destroyed)["error"]["code"] == "FailedPrecondition"
        gone = data_of(await producer.ask(about("delete_machine", won["nodeName"])))
        assert [one["selfLink"] for one in gone["detachedVolumes"]] == [LINK]
        again = await producer.ask(create("worker-2", selfLink=LINK))
        assert again.type == "io.vspherefunctions.create_machine.succeeded.v1"
        moved = data_of(await producer.ask(about("detach_volume", "worker-2", id="data-1")))
        assert moved["volume"]["attachedTo"] == []

    producing(stack, work)


def test_what_an_attach_that_waits_for_its_next_try_still_does_is_waited_for(vcsim_binary: object) -> None:
    """Between its tries its leases are free, and vCenter goes on."""
    assert vcsim_binary
    brief = SECTIONS | {"limits": {"budget_seconds": 3, "retry_seconds": 12}}
    with Stack(sections=brief) as stack, with_stores(stack.vcenter) as ctx:
        machines.create(ctx)
        volumes.create(ctx)
        stack.vcenter.control.delay(ReconfigVm=5000)
        stack.start_worker()

        async def work(producer: Producer) -> None:
            await producer.publish(about("attach_volume", "worker-1", id="data-1"))
            await until(lambda: [one for one in producer.on("progress") if b'"retry"' in one.data])
            destroyed = await producer.ask(request_event("destroy_volume", {"selfLink": LINK}))
            error = data_of(destroyed)["error"]
            assert (error["code"], error["details"][0]["candidates"]) == ("FailedPrecondition", ["worker-1"])
            found = data_of(await producer.ask(request_event("get_volume", {"selfLink": LINK})))["volume"]
            assert (found["state"], found["attachedTo"]) == ("ready", ["worker-1"])

        producing(stack, work)
