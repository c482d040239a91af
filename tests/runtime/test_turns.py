"""The turns of a sweep, which deletes what others create and delete by name."""

import asyncio

import pytest

from support.functions import TAGS, address, request, settings
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.dispatch import Call, dispatch
from vsphere_functions.runtime.operations import Record, finished
from vsphere_functions.runtime.order import Identity
from vsphere_functions.runtime.store import Bucket, MemoryStore
from vsphere_functions.runtime.turns import take_turn
from vsphere_functions.runtime.unfinished import Making

UUID = "422e4956-ad22-1139-6d72-59cc8f26bc90"


def call(event: CloudEvent) -> Call:
    return dispatch(address(event, event.type.split(".")[2]), settings())


def sweep(*names: str) -> Call:
    ids = [f"machine/vm-1/{UUID}/{name}" for name in names]
    data = {"providerSpec": {"tags": TAGS}, "machines": [], "minAgeSeconds": 0, "delete": ids}
    return call(request("find_orphans", data=data))


def test_a_sweep_is_refused_when_a_later_request_has_created_what_it_would_delete() -> None:
    async def play(store: MemoryStore) -> None:
        assert await take_turn(store, call(request(name="m-2")), 8)
        with pytest.raises(CallError) as refused:
            await take_turn(store, sweep("m-1", "m-2"), 7)
        assert refused.value.code is Code.FAILED_PRECONDITION
        assert await take_turn(store, sweep("m-1", "m-2"), 9)
        assert await take_turn(store, sweep("m-1", "m-2"), 9)

    asyncio.run(play(MemoryStore()))


def test_a_create_older_than_a_sweep_of_it_is_canceled_and_the_owner_has_no_order() -> None:
    async def play(store: MemoryStore) -> None:
        swept = sweep("m-1")
        assert await take_turn(store, swept, 7)
        with pytest.raises(CallError) as canceled:
            await take_turn(store, call(request()), 6)
        assert canceled.value.code is Code.CANCELED
        owner = await store.get(Bucket.IDENTITIES, swept.identities[0])
        assert owner
        assert Identity.load(owner.value) == Identity(begun=7)
        assert await take_turn(store, sweep("m-2"), 3)

    asyncio.run(play(MemoryStore()))


def test_a_sweep_does_not_overtake_a_create_that_has_begun_and_not_ended() -> None:
    """It spares what is being made; the create would be taken back, and a machine lost that somebody wants."""

    async def play(store: MemoryStore) -> None:
        made = call(request())
        record = Record(source=made.address.event.source, id=made.address.event.id)
        await store.create(Bucket.OPERATIONS, made.address.key, record.dump())
        assert await take_turn(store, made, 6)
        assert await take_turn(store, sweep("m-1"), 7)
        assert await take_turn(store, made, 6)
        entry = await store.get(Bucket.OPERATIONS, made.address.key)
        assert entry
        ended = finished(record, b"{}").dump()
        assert await store.update(Bucket.OPERATIONS, made.address.key, ended, entry.revision)
        assert await take_turn(store, sweep("m-1"), 8)
        with pytest.raises(CallError) as canceled:
            await take_turn(store, call(request()), 6)
        assert canceled.value.code is Code.CANCELED

    asyncio.run(play(MemoryStore()))


def test_nor_an_earlier_create_of_the_same_machine_when_the_last_one_has_ended() -> None:
    async def play(store: MemoryStore) -> None:
        first, second = call(request()), call(request())
        making = Making(store, asyncio.get_running_loop(), first.host)
        for one, sequence in ((first, 6), (second, 7)):
            record = Record(source=one.address.event.source, id=one.address.event.id)
            await store.create(Bucket.OPERATIONS, one.address.key, record.dump())
            assert one.makes
            await making.begun(*one.makes, one.address.key)
            assert await take_turn(store, one, sequence)
        entry = await store.get(Bucket.OPERATIONS, second.address.key)
        assert entry
        ended = finished(Record.load(entry.value), b"{}").dump()
        assert await store.update(Bucket.OPERATIONS, second.address.key, ended, entry.revision)
        assert await take_turn(store, sweep("m-1"), 8)
        assert await take_turn(store, first, 6)

    asyncio.run(play(MemoryStore()))


def test_a_sweep_that_is_refused_for_one_has_overtaken_none() -> None:
    async def play(store: MemoryStore) -> None:
        assert await take_turn(store, call(request(name="m-2")), 8)
        with pytest.raises(CallError):
            await take_turn(store, sweep("m-1", "m-2"), 7)
        assert await take_turn(store, call(request(name="m-1")), 6)

    asyncio.run(play(MemoryStore()))
