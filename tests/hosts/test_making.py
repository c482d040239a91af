"""Which machines are being made, as the records in NATS tell it (M07, M23)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.jetstream import on, producer
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.operations import Record, State
from vsphere_functions.runtime.store import Bucket, Entry, MemoryStore, Store, StoreError
from vsphere_functions.runtime.unfinished import Making


@pytest.fixture(params=["memory", "nats"])
def with_store(request: pytest.FixtureRequest, nats_server: NatsServer) -> Callable[[Any], None]:
    """Run something on an empty store of either kind."""

    def run(work: Callable[[Store], Awaitable[None]]) -> None:
        asyncio.run(in_memory(work) if request.param == "memory" else in_nats(work))

    async def in_memory(work: Callable[[Store], Awaitable[None]]) -> None:
        await work(MemoryStore())

    async def in_nats(work: Callable[[Store], Awaitable[None]]) -> None:
        async with producer(nats_server, on(nats_server)) as one:
            calls = Calls(one.client)
            await calls.open()
            await work(KvStore(calls))
            await calls.close()

    return run


async def creating(making: Making, owner: str) -> frozenset[str]:
    return await asyncio.to_thread(making.creating, owner)


async def operation(store: Store, key: str, state: State = State.OPEN) -> None:
    record = Record(source="/s", id=key, state=state, result=b"{}" if state is State.DONE else None)
    await store.create(Bucket.OPERATIONS, key, record.dump())


def test_what_has_begun_and_not_ended_is_being_made(with_store: Callable[[Any], None]) -> None:
    async def work(store: Store) -> None:
        making = Making(store, asyncio.get_running_loop(), "vc.example:443")
        assert await creating(making, "a/node") == frozenset()
        for number in range(3):
            await operation(store, f"default.op-{number}")
            await making.begun("a/node", f"m {number}.*>", f"default.op-{number}")
        await making.begun("a/node", "m 0.*>", "default.op-0")
        await operation(store, "default.other")
        await making.begun("b/node", "x", "default.other")
        assert await creating(making, "a/node") == {"m 0.*>", "m 1.*>", "m 2.*>"}
        await making.ended("a/node", "m 1.*>", "default.op-1")
        await making.ended("a/node", "m 2.*>", "default.another")
        assert await creating(making, "a/node") == {"m 0.*>", "m 2.*>"}
        elsewhere = Making(store, asyncio.get_running_loop(), "other.example:443")
        assert await creating(elsewhere, "a/node") == frozenset()

    with_store(work)


def test_a_note_left_behind_says_nothing_once_its_operation_has_ended(
    with_store: Callable[[Any], None],
) -> None:
    async def work(store: Store) -> None:
        making = Making(store, asyncio.get_running_loop(), "vc")
        await operation(store, "default.done", State.DONE)
        await making.begun("a/node", "m", "default.done")
        await making.begun("a/node", "n", "default.forgotten")
        assert await creating(making, "a/node") == frozenset()
        await operation(store, "default.next")
        await making.begun("a/node", "m", "default.next")
        assert await creating(making, "a/node") == {"m"}

    with_store(work)


def test_the_end_of_one_create_of_a_machine_leaves_the_note_of_another(
    with_store: Callable[[Any], None],
) -> None:
    async def work(store: Store) -> None:
        making = Making(store, asyncio.get_running_loop(), "vc")
        for key in ("default.first", "default.second"):
            await operation(store, key)
            await making.begun("a/node", "m", key)
        await making.ended("a/node", "m", "default.second")
        assert await creating(making, "a/node") == {"m"}
        assert await making.by_another("a/node", "m", "default.delete")
        assert not await making.by_another("a/node", "m", "default.first")
        await making.ended("a/node", "m", "default.first")
        assert await creating(making, "a/node") == frozenset()

    with_store(work)


class Away(MemoryStore):
    """A store that does not answer."""

    async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
        raise StoreError(f"no answer about {bucket} {prefixes}")


def test_records_out_of_reach_prove_nothing() -> None:
    async def work() -> None:
        making = Making(Away(), asyncio.get_running_loop(), "vc")
        with pytest.raises(CallError) as failed:
            await creating(making, "a/node")
        assert failed.value.code is Code.UNAVAILABLE

    asyncio.run(work())
