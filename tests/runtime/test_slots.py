"""Slots under caps: taken by all processes alike, kept from one try to the next, never more than the cap."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.functions import World, address, desk, performed, request
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.gate import Cap, Gate
from vsphere_functions.runtime.leases import Lease
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Ending, Finished
from vsphere_functions.runtime.settings import Limits
from vsphere_functions.runtime.slots import Slots, holder_of
from vsphere_functions.runtime.store import Bucket, Entry, MemoryStore, Store, StoreError

LIMITS = Limits()
_tries = itertools.count()
CAPS = (Cap("a", 2), Cap("b", 3))


def play(scene: Callable[[MemoryStore], Awaitable[None]], store: MemoryStore | None = None) -> None:
    async def run() -> None:
        await scene(store or MemoryStore())

    asyncio.run(run())


def of(store: MemoryStore, operation: str, caps: tuple[Cap, ...] = CAPS, gate: Gate | None = None) -> Any:
    """Slots of a process of their own, and the lease that holds them."""
    lease = Lease(store, [], holder_of(operation, f"try-{next(_tries)}"), 10)
    return Slots(store, gate or Gate(), lease, caps, None), lease


async def taken(store: MemoryStore, cap: str) -> int:
    return len(await store.under(Bucket.LEASES, f"slot.{cap}"))


def test_there_are_as_many_as_the_cap_and_who_gets_less_than_all_gets_none() -> None:
    async def scene(store: MemoryStore) -> None:
        (one, lease), (two, _), (three, _) = (of(store, name) for name in ("one", "two", "three"))
        assert await one.take(LIMITS, first=True)
        assert await one.take(LIMITS, first=True), "they are held already"
        assert await two.take(LIMITS, first=True)
        assert not await three.take(LIMITS, first=True)
        assert three.full == CAPS[0]
        assert (await taken(store, "a"), await taken(store, "b")) == (2, 2)
        await lease.release()
        again, _ = of(store, "three")
        assert await again.take(LIMITS, first=True)
        assert (await taken(store, "a"), await taken(store, "b")) == (2, 2)

    play(scene)


def test_what_is_capped_by_nothing_needs_no_slot() -> None:
    async def scene(store: MemoryStore) -> None:
        free, _ = of(store, "one", ())
        assert await free.take(LIMITS, first=True)
        assert not await taken(store, "a")

    play(scene)


def test_a_look_serves_those_that_come_after_it_in_the_same_process() -> None:
    """Ten at once make one look; they get what it has found, and later ones what is given back."""
    looks: list[tuple[str, ...]] = []

    class Counting(MemoryStore):
        async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
            looks.append(prefixes)
            return await super().under(bucket, *prefixes)

    async def scene(store: MemoryStore) -> None:
        gate, caps = Gate(), (Cap("a", 10), Cap("b", 12))
        tries = [of(store, f"op-{n}", caps, gate) for n in range(10)]
        assert all(await asyncio.gather(*(slots.take(LIMITS, first=True) for slots, _ in tries)))
        assert len(looks) == 1
        slots, lease = tries[0]
        gate.opened(caps, await lease.release())
        later, _ = of(store, "later", caps, gate)
        assert await later.take(LIMITS, first=True)
        assert set(later.keys) == set(slots.keys)
        assert len(looks) == 1

    play(scene, Counting())


class Racing(MemoryStore):
    """Somebody else takes the first free slot of `a` between the look and the taking, so many times."""

    def __init__(self, cap: int, times: int) -> None:
        super().__init__()
        self.cap, self.times = cap, times

    async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
        known = await super().under(bucket, *prefixes)
        free = [key for n in range(self.cap) if (key := f"slot.a.{n}") not in known]
        if self.times and free:
            self.times -= 1
            await self.create(bucket, free[0], b"other try")
        return known


@pytest.mark.parametrize("cap", [1, 2, 9])
def test_two_that_look_at_once_never_share_a_slot(cap: int) -> None:
    async def scene(store: MemoryStore) -> None:
        slots, _ = of(store, "one", (Cap("a", cap), Cap("b", 3)))
        won = await slots.take(LIMITS, first=True)
        assert await taken(store, "a") <= cap
        assert await taken(store, "b") == (1 if won else 0), "what was won beside goes back"
        assert won is not (cap == 1)

    play(scene, Racing(cap, times=1))


def test_a_store_that_fails_in_between_leaves_nothing_taken() -> None:
    class Failing(MemoryStore):
        async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
            if key.startswith("slot.b"):
                raise StoreError("away")
            return await super().update(bucket, key, value, revision)

    async def scene(store: MemoryStore) -> None:
        slots, _ = of(store, "one")
        assert not await slots.take(LIMITS, first=True)
        assert not await taken(store, "a")

    play(scene, Failing())


def test_a_next_try_takes_over_what_was_left_and_counts_beyond_the_cap_when_it_broke_off() -> None:
    async def scene(store: MemoryStore) -> None:
        (one, lease), (two, _) = of(store, "one"), of(store, "two")
        assert await one.take(LIMITS, first=True)
        assert await two.take(LIMITS, first=True)
        await lease.release(leaving=one.keys)
        again, _ = of(store, "one")
        assert not await again.take(LIMITS, first=True), "not before the lease says that nobody is at it"
        assert await again.resume(LIMITS, beyond=False)
        assert set(again.keys) == set(one.keys)
        three, its = of(store, "three")
        assert not await three.resume(LIMITS, beyond=False)
        assert await three.resume(LIMITS, beyond=True)
        assert await taken(store, "a") == 3
        for key in again.keys:
            entry = await store.get(Bucket.LEASES, key)
            assert entry
            await store.delete(Bucket.LEASES, key, entry.revision)
        four, _ = of(store, "four")
        assert not await four.take(LIMITS, first=True), "two are taken, whatever their numbers"
        await its.release()
        four, _ = of(store, "four")
        assert await four.take(LIMITS, first=True)

    play(scene)


async def record_of(one: Desk, event: CloudEvent) -> Record:
    entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
    assert entry
    return Record.load(entry.value)


def in_use(store: Store) -> int:
    """How many slots of any cap are taken."""
    assert isinstance(store, MemoryStore)
    return len([key for bucket, key in store._entries if bucket is Bucket.LEASES and key.startswith("slot.")])


class Held(World):
    """Its creates wait, each, until `go` is set; `reached` counts those that have come so far."""

    def __init__(self) -> None:
        super().__init__(between=self._hold)
        self.go = threading.Event()
        self.reached = threading.Semaphore(0)

    def _hold(self, _ctx: object) -> None:
        self.reached.release()
        self.go.wait(100)

    async def arrived(self) -> None:
        assert await asyncio.to_thread(self.reached.acquire, timeout=60)


def test_what_waits_for_a_slot_uses_no_try_and_ends_only_by_its_expirytime() -> None:
    world = Held()

    async def scene(one: Desk) -> None:
        first = asyncio.create_task(performed(one, address(request()), Delivery(1)))
        await world.arrived()
        soon = (one.clock() + timedelta(seconds=60)).isoformat()
        event = request(name="m-2", extensions={"expirytime": soon})
        long_ago = datetime.now(UTC) - timedelta(days=1)
        elsewhere = replace(one, gate=Gate())
        for where in (one, elsewhere, one, one):
            waits = await performed(where, address(event), Delivery(2, long_ago))
            assert isinstance(waits, Again)
            assert not waits.begun
            assert 0 < waits.delay < 1
        assert (await record_of(one, event)).attempts == 0
        late = replace(one, clock=lambda: datetime.now(UTC) + timedelta(seconds=61))
        ended = await performed(late, address(event), Delivery(2, long_ago))
        assert isinstance(ended, Finished)
        assert ended.result.data["error"]["code"] == "DeadlineExceeded"
        assert ended.dead is None
        world.go.set()
        assert isinstance(await first, Finished)
        assert isinstance(await performed(one, address(request(name="m-3")), Delivery(3)), Finished)

    with desk(world, creates_per_vcenter=1) as one:
        asyncio.run(scene(one))
    assert world.effects == ["create m-1", "create m-3"]


def test_where_others_wait_what_is_known_to_be_in_vain_asks_for_its_record_only() -> None:
    """A thousand that wait cost little: no claim, no lease, no look while the cap is known to be full."""
    world, asked = Held(), list[str]()

    class Counting(MemoryStore):
        async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
            asked.append("create")
            return await super().create(bucket, key, value)

        async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
            asked.append("under")
            return await super().under(bucket, *prefixes)

        async def get(self, bucket: Bucket, key: str) -> Entry | None:
            asked.append("get")
            return await super().get(bucket, key)

    async def scene(one: Desk) -> None:
        first = asyncio.create_task(performed(one, address(request()), Delivery(1)))
        await world.arrived()
        for sequence in range(2, 5):
            assert isinstance(
                await performed(one, address(request(name=f"m-{sequence}")), Delivery(sequence)), Again
            )
        asked.clear()
        waits = await performed(one, address(request(name="m-9")), Delivery(9))
        assert isinstance(waits, Again)
        assert asked == ["get"]
        world.go.set()
        await first

    with desk(world, store=Counting(), creates_per_vcenter=1, retry_seconds=100) as one:
        asyncio.run(scene(one))


def test_a_finished_request_is_answered_though_others_wait() -> None:
    world, event = Held(), request()

    async def scene(one: Desk) -> Ending:
        world.go.set()
        await performed(one, address(event), Delivery(1))
        world.go.clear()
        world.reached = threading.Semaphore(0)
        running = asyncio.create_task(performed(one, address(request(name="m-2")), Delivery(2)))
        await world.arrived()
        assert isinstance(await performed(one, address(request(name="m-3")), Delivery(3)), Again)
        again = await performed(one, address(event), Delivery(4))
        world.go.set()
        await running
        return again

    with desk(world, creates_per_vcenter=1) as one:
        ending = asyncio.run(scene(one))
    assert isinstance(ending, Finished)
    assert ending.replayed


@pytest.mark.parametrize("why", ["shutdown", "time is up", "away", "full", "over HTTP"])
def test_a_try_that_leaves_something_going_on_leaves_its_slots_to_the_next(why: str) -> None:
    """A clone does not stop with its worker; one that has failed is over."""
    world = World()

    def fail(_ctx: object) -> None:
        raise CallError(Code.RESOURCE_EXHAUSTED if why == "full" else Code.UNAVAILABLE, "no")

    async def scene(one: Desk) -> None:
        event, sequence = request(), None if why == "over HTTP" else 1
        if why == "shutdown":
            one.stopping.set()
        elif why != "time is up":
            world.between = fail
        assert isinstance(await performed(one, address(event), Delivery(sequence)), Again)
        one.stopping.clear()
        left = in_use(one.store)
        assert left == (0 if why in {"full", "over HTTP"} else 3)
        world.between = lambda _: None
        other = await performed(one, address(request(name="m-2")), Delivery(2))
        assert isinstance(other, Again) is bool(left), "it counts"
        patient = replace(one, settings=one.settings.model_copy(update={"limits": LIMITS}))
        assert isinstance(await performed(patient, address(event), Delivery(sequence)), Finished)
        assert in_use(one.store) == 0

    budget = 1e-9 if why == "time is up" else 20
    with desk(world, creates_per_vcenter=1, budget_seconds=budget) as one:
        asyncio.run(scene(one))
    assert world.effects[0] == "create m-1"
