"""Volumes by events: several workers that want the same, and workers that are killed at each step."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support import machines
from support.jetstream import Producer
from support.machines import TAGS
from support.mortal_workers import mortal_stack
from support.stacks import data_of, messages_on, producing
from support.volumes import (
    INSTALLATION,
    attach,
    contents,
    create,
    files_of,
    found_store,
    get,
    listing,
    store,
    with_stores,
)
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.context import Context
from vsphere_functions.local.stack import Stack

SECTIONS: dict[str, dict[str, Any]] = {
    "nats": {"ack_wait_seconds": 1},
    "limits": {"retry_seconds": 0.2, "attempts": 50},
    "worker": {"health_host": "127.0.0.1", "slots": 1},
    "stores.default": {"installation": INSTALLATION},
    "stores.fresh": {
        "vcenter": "default",
        "datacenter": "DC0",
        "path": "[LocalDS_0] fresh",
        "installation": INSTALLATION,
    },
}
STORES = (store(), store("fresh", "[LocalDS_0] fresh"))
STEPS = {
    "create_volume": 8,
    "destroy_volume": 8,
    "resize_volume": 4,
    "copy_volume": 10,
    "attach_volume": 2,
    "detach_volume": 2,
}
"""How many steps each takes."""
SOURCE = "of-"
"""What is copied is called after its copy, with this before it."""
BYTES = b"what a guest has written"


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the deaths of workers are written down."""
    return tmp_path_factory.mktemp("deaths")


@pytest.fixture(scope="module")
def stack(vcsim_binary: object, deaths: Path) -> Iterator[Stack]:
    assert vcsim_binary
    with mortal_stack(deaths, 3, **SECTIONS) as one:
        yield one


@pytest.fixture
def ctx(stack: Stack) -> Iterator[Context]:
    with with_stores(stack.vcenter, *STORES) as one:
        yield one


def asked(function: str, **data: object) -> CloudEvent:
    return request_event(function, data)


async def all_told(producer: Producer, events: list[CloudEvent]) -> list[dict[str, Any]]:
    """Ask all at once; each ends well, with one answer."""
    await asyncio.gather(*(producer.publish(one) for one in events))
    results = [await producer.result(one, seconds=280) for one in events]
    assert [one.type for one in results] == [one.type.replace("request", "succeeded") for one in events]
    for one in events:
        assert await messages_on(producer, one, one.type.split(".")[2]) == 1
    return [data_of(one) for one in results]


def whole(name: str) -> list[str]:
    """What lies in the folder of a whole volume."""
    return [f"{name}-flat.vmdk", f"{name}.vmdk", "volume.json"]


def test_v03_v05_creates_at_once_of_one_id_and_of_many_in_a_store_that_is_not_there(
    stack: Stack, ctx: Context
) -> None:
    names = [f"data-{number}" for number in range(8)]

    async def work(producer: Producer) -> None:
        events = [asked("create_volume", id=name, store="fresh") for name in [*names, *names[:1] * 4]]
        told = await all_told(producer, events)
        assert [one["volume"]["tag"] for one in told[:8]] == names
        assert told[8:] == told[:1] * 4

    producing(stack, work)
    assert stack.vcenter.control.calls()["CreateVirtualDisk_Task"] == len(names)
    assert contents(ctx, "fresh") == {"": [], **{name: whole(name) for name in names}}


def test_v06_what_one_worker_has_done_every_other_sees(stack: Stack) -> None:
    async def work(producer: Producer) -> None:
        for number in range(3):
            (made,) = await all_told(
                producer, [asked("create_volume", id="seen", capacityKB=1024 * (number + 1))]
            )
            gets = await all_told(producer, [asked("get_volume", id="seen") for _ in range(4)])
            lists = await all_told(producer, [asked("list_volumes", store="default") for _ in range(4)])
            assert gets == [made] * 4
            assert [one["volumes"] for one in lists] == [[made["volume"]]] * 4
            await all_told(producer, [asked("destroy_volume", id="seen")])
            again = await asyncio.gather(*(producer.ask(asked("get_volume", id="seen")) for _ in range(4)))
            assert [data_of(one)["error"]["code"] for one in again] == ["NotFound"] * 4

    producing(stack, work)


@pytest.mark.parametrize("form", [list, json.dumps], ids=["list", "text"])
def test_v30_the_ids_behind_pvs_are_told(stack: Stack, form: Callable[[list[Any]], Any]) -> None:
    specs = [
        {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "4e5d9b0c-0a1b"}},
        {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}},
        {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": ""}},
        {"nfs": {"path": "/"}},
        {"vsphereVolume": {"volumePath": "[ds] kubevols/x.vmdk"}},
    ]

    async def work(producer: Producer) -> None:
        (told,) = await all_told(producer, [asked("get_volume_ids", pvSpecList=form(specs))])
        assert told == {"volumeIDs": ["4e5d9b0c-0a1b", "[ds] kubevols/x.vmdk"]}

    producing(stack, work)


def deadly() -> list[str]:
    """The names of the volumes whose requests kill their workers."""
    both = ("attach_volume", "detach_volume")  # these go on from what was recorded
    return [
        f"{function}-{number}-{when}"
        for function, steps in STEPS.items()
        for when in (("before", "after") if function in both else ("before",))
        for number in range(1, steps + 1)
    ]


def harmless() -> list[str]:
    """Those of a step after the last one, which shows that there are no more."""
    return [f"{function}-{steps + 1}-before" for function, steps in STEPS.items()]


def request_of(name: str) -> CloudEvent:
    """The request about a volume that is called after it."""
    function = name.partition("-")[0]
    more: dict[str, Callable[[], dict[str, Any]]] = {
        "create_volume": lambda: {"id": name, "capacityKB": 1024},
        "destroy_volume": lambda: {"id": name},
        "resize_volume": lambda: {"id": name, "capacityKB": 2048},
        "copy_volume": lambda: {"id": f"{SOURCE}{name}", "toId": name},
    }
    machine = "worker-1" if function == "attach_volume" else "worker-2"
    pair = {"machineName": machine, "providerSpec": {"tags": TAGS}, "id": name}
    return asked(function, **more.get(function, lambda: pair)())


def extent(ctx: Context, name: str) -> Any:
    return found_store(ctx).folder / name / f"{name}-flat.vmdk"


def prepare(ctx: Context, names: list[str]) -> None:
    """Make what the requests are about: volumes with something on them, and a machine."""
    machines.create(ctx)
    machines.create(ctx, "worker-2")

    def make(name: str) -> None:
        if not name.startswith("create"):
            there = f"{SOURCE}{name}" if name.startswith("copy") else name
            create(ctx, there, capacityKB=1024)
            files_of(ctx).write(extent(ctx, there), BYTES)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, names))
    for name in names:
        if name.startswith("detach"):
            attach(ctx, name, "worker-2")


@pytest.mark.timeout(300)
def test_whatever_step_of_it_a_worker_dies_at_a_request_is_ended_and_no_byte_is_lost(
    stack: Stack, ctx: Context, deaths: Path
) -> None:
    names = [*deadly(), *harmless()]
    prepare(ctx, names)

    async def work(producer: Producer) -> None:
        await all_told(producer, [request_of(name) for name in names])
        await producer.settled()

    producing(stack, work)
    assert sorted(one.name for one in deaths.iterdir()) == sorted(deadly())
    copied = [f"{SOURCE}{name}" for name in names if name.startswith("copy")]
    left = [*copied, *(name for name in names if not name.startswith("destroy"))]
    assert contents(ctx) == {"": [], **{name: whole(name) for name in left}}
    assert listing(ctx).degraded == ()
    for name in left:
        volume = get(ctx, name)
        assert volume.attached_to == (("worker-1",) if name.startswith("attach") else ())
        assert volume.capacity_kb == (2048 if name.startswith("resize") else 1024)
        assert files_of(ctx).read(extent(ctx, name)) == (b"" if name.startswith("create") else BYTES)
