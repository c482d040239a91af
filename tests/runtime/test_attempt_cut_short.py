"""A try that waits, is too late, is canceled, superseded, or loses its store."""

import asyncio
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.functions import World, address, desk, performed, request
from support.jetstream import until
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.dispatch import dispatch
from vsphere_functions.runtime.gate import caps_of
from vsphere_functions.runtime.operations import Record, State, canceled, redriven
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Ending, Finished, Lost
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.slots import holder_of
from vsphere_functions.runtime.store import Bucket, MemoryStore, StoreError


def ignore(_progress: CloudEvent) -> None:
    """Hear no progress."""


async def record_of(one: Desk, event: CloudEvent) -> Record:
    entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
    assert entry
    return Record.load(entry.value)


async def cancel(one: Desk, event: CloudEvent) -> None:
    entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
    assert entry
    wish = canceled(Record.load(entry.value), event.source, event.id)
    await one.store.update(Bucket.OPERATIONS, address(event).key, wish.dump(), entry.revision)


def make(one: Desk, event: CloudEvent, function: str = "create_machine", **delivery: Any) -> Ending:
    return asyncio.run(performed(one, address(event, function), Delivery(**delivery)))


def error_of(ending: Ending) -> dict[str, Any]:
    assert isinstance(ending, Finished)
    error: dict[str, Any] = ending.result.data["error"]
    return error


def test_a_busy_machine_is_waited_for_without_using_up_tries_until_the_limit() -> None:
    """E26, the rule: its record says that nothing was tried; after limits.busy_seconds it is given up.

    These begin when the machine is first found busy: before that the request may have lain in the stream for long.
    """
    world, event = World(), request()
    long_ago = datetime.now(UTC) - timedelta(days=1)

    async def play(one: Desk) -> list[Ending]:
        call = dispatch(address(event), one.settings)
        assert await one.store.create(Bucket.LEASES, call.identities[0], b"another's") is not None
        waits = [await perform(one, address(event), Delivery(1, long_ago), ignore) for _ in range(9)]
        late = replace(one, clock=lambda: datetime.now(UTC) + timedelta(seconds=3601))
        return [*waits, await perform(late, address(event), Delivery(1, long_ago), ignore)]

    with desk(world) as one:
        *waits, last = asyncio.run(play(one))
    assert all(isinstance(ending, Again) and ending.delay < 1 for ending in waits)
    assert error_of(last)["code"] == "Aborted"
    assert isinstance(last, Finished)
    assert last.dead is not None
    assert last.dead.attempts == 0
    assert not world.effects


def test_a_try_ends_the_wait_for_a_machine_and_the_next_one_begins_anew() -> None:
    world, event = World(failures=[CallError(Code.UNAVAILABLE, "away")]), request()

    async def play(one: Desk) -> Ending:
        call = dispatch(address(event), one.settings)
        await one.store.create(Bucket.LEASES, call.identities[0], b"another's")
        await perform(one, address(event), Delivery(1), ignore)
        entry = await one.store.get(Bucket.LEASES, call.identities[0])
        assert entry
        await one.store.delete(Bucket.LEASES, call.identities[0], entry.revision)
        await performed(one, address(event), Delivery(1))
        await one.store.create(Bucket.LEASES, call.identities[0], b"another's")
        late = replace(one, clock=lambda: datetime.now(UTC) + timedelta(seconds=3601))
        return await perform(late, address(event), Delivery(1), ignore)

    with desk(world) as one:
        assert isinstance(asyncio.run(play(one)), Again)
        assert asyncio.run(record_of(one, event)).attempts == 1


def test_slots_that_its_own_last_try_is_just_letting_go_of_are_taken_over() -> None:
    """They outlast the lease by a moment, and by more when their worker was killed."""
    world, event = World(), request()

    async def play(one: Desk) -> Ending:
        call = dispatch(address(event), one.settings)
        for cap in caps_of(call, one.settings.limits):
            left = holder_of(address(event).key, "another try").encode()
            await one.store.create(Bucket.LEASES, f"slot.{cap.key}.0", left)
        return await performed(one, address(event), Delivery(1))

    with desk(world) as one:
        assert isinstance(asyncio.run(play(one)), Finished)


def test_a_request_that_waits_for_a_machine_ends_with_its_expirytime() -> None:
    world = World()

    async def play(one: Desk) -> list[Ending]:
        soon = (one.clock() + timedelta(seconds=1)).isoformat()
        event = request(extensions={"expirytime": soon})
        call = dispatch(address(event), one.settings)
        await one.store.create(Bucket.LEASES, call.identities[0], b"another's")
        first = await perform(one, address(event), Delivery(), ignore)
        late = replace(one, clock=lambda: datetime.now(UTC) + timedelta(seconds=2))
        return [first, await perform(late, address(event), Delivery(), ignore)]

    with desk(world) as one:
        first, second = asyncio.run(play(one))
    assert isinstance(first, Again)
    assert error_of(second)["code"] == "DeadlineExceeded"
    assert isinstance(second, Finished)
    assert second.dead is None


def test_a_second_delivery_of_what_runs_elsewhere_only_waits() -> None:
    """However long ago it was published: the first one is still at it."""
    world, event = World(), request()
    reached, go = threading.Event(), threading.Event()

    def hold(_ctx: object) -> None:
        reached.set()
        go.wait(100)

    async def play(one: Desk) -> tuple[Ending, Ending]:
        running = asyncio.create_task(perform(one, address(event), Delivery(), ignore))
        await asyncio.to_thread(reached.wait, 10)
        long_ago = datetime.now(UTC) - timedelta(days=1)
        second = await perform(one, address(event), Delivery(published=long_ago), ignore)
        go.set()
        return await running, second

    world.between = hold
    with desk(world) as one:
        first, second = asyncio.run(play(one))
    assert isinstance(second, Again)
    assert isinstance(first, Finished)
    assert "error" not in first.result.data


def test_a_try_that_takes_too_long_ends_at_its_next_step_and_the_next_goes_on_from_there() -> None:
    world = World(between=lambda _: time.sleep(0.5))
    with desk(world, budget_seconds=0.4) as one:
        event = request()
        ending = make(one, event)
        assert isinstance(ending, Again)
        assert ending.reason.startswith("DeadlineExceeded")
        assert world.seen_states == [None]
        make(one, event)
    assert world.seen_states == [None, "on"]
    assert world.effects == ["create m-1"]


def test_a_try_checks_out_at_its_next_step_when_the_process_ends() -> None:
    world = World()
    with desk(world) as one:
        one.stopping.set()
        event = request()
        assert make(one, event) == Again(0, "the worker is shutting down")
        record = asyncio.run(record_of(one, event))
        assert (record.attempts, record.claim, record.last_known_state) == (0, "", "cloned")


def test_a_request_canceled_while_it_runs_is_told_at_its_next_step() -> None:
    event, world = request(), World()

    async def play(one: Desk) -> Ending:
        loop = asyncio.get_running_loop()
        world.between = lambda _: asyncio.run_coroutine_threadsafe(cancel(one, event), loop).result(5)
        return await perform(one, address(event), Delivery(), ignore)

    with desk(world) as one:
        ending = asyncio.run(play(one))
        assert error_of(ending)["code"] == "Canceled"
        assert isinstance(ending, Finished)
        assert ending.result.data["lastKnownState"] == "on"
        again = make(one, event)
    assert isinstance(again, Finished)
    assert again.replayed


def test_a_wish_to_cancel_that_meets_a_failing_try_ends_it() -> None:
    event, world = request(), World()
    world.failures = [CallError(Code.UNAVAILABLE, "away", last_known_state="s")]

    class Canceling(MemoryStore):
        """Somebody else cancels just before the try checks out."""

        async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
            entry = await self.get(bucket, key)
            assert entry
            record = Record.load(entry.value)
            if record.state is State.OPEN:
                now = canceled(record, event.source, event.id)
                await super().update(bucket, key, now.dump(), entry.revision)
            return await super().update(bucket, key, value, revision)

    with desk(world, store=Canceling()) as one:
        assert isinstance(make(one, event), Again)
        ending = make(one, event)
    assert error_of(ending)["code"] == "Canceled"
    assert not world.effects


def test_what_lost_its_record_to_another_says_nothing() -> None:
    event, world = request(), World()

    async def usurp(one: Desk) -> None:
        entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
        assert entry
        record = Record.load(entry.value).changed(claim="another's")
        await one.store.update(Bucket.OPERATIONS, address(event).key, record.dump(), entry.revision)

    async def play(one: Desk) -> Ending:
        loop = asyncio.get_running_loop()
        world.between = lambda _: asyncio.run_coroutine_threadsafe(usurp(one), loop).result(5)
        return await perform(one, address(event), Delivery(), ignore)

    with desk(world) as one:
        assert asyncio.run(play(one)) == Lost()


def test_a_dead_letter_that_is_sent_again_is_worked_on_anew() -> None:
    """E15, the rule: the next generation, whose result replaces the first one."""
    world, event = World(failures=[CallError(Code.UNAVAILABLE, "away")]), request()

    async def redrive(one: Desk) -> None:
        entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
        assert entry
        record = redriven(Record.load(entry.value), 0, 41)
        await one.store.update(Bucket.OPERATIONS, address(event).key, record.dump(), entry.revision)

    with desk(world, attempts=1) as one:
        dead = make(one, event)
        assert isinstance(dead, Finished)
        assert dead.dead
        assert (dead.result.id, dead.expects) == (f"{event.id}.result", 0)
        asyncio.run(redrive(one))
        again = make(one, event)
    assert isinstance(again, Finished)
    assert (again.result.id, again.expects, again.dead) == (f"{event.id}.result.1", 41, None)


@pytest.mark.parametrize("canceled_meanwhile", [False, True])
def test_what_the_settings_refuse_since_it_was_begun_ends_with_that_answer(canceled_meanwhile: bool) -> None:
    world, event = World(failures=[CallError(Code.UNAVAILABLE, "away", last_known_state="s")]), request()

    with desk(world) as one:
        assert isinstance(make(one, event), Again)
        if canceled_meanwhile:
            asyncio.run(cancel(one, event))
        others = replace(one, settings=Settings(), undos=world.catalogue())
        ending = make(others, event)
    assert isinstance(ending, Finished)
    assert (error_of(ending)["code"], ending.result.data["lastKnownState"]) == ("InvalidArgument", "s")


def test_a_store_that_fails_while_claiming_leaves_nothing_taken() -> None:
    event = request()

    class Failing(MemoryStore):
        async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
            if bucket is Bucket.OPERATIONS:
                raise StoreError("away")
            return await super().create(bucket, key, value)

    async def play(one: Desk) -> None:
        with pytest.raises(StoreError):
            await perform(one, address(event), Delivery(), ignore)
        await asyncio.gather(*one.background)
        call = dispatch(address(event), one.settings)
        assert await one.store.get(Bucket.LEASES, call.identities[0]) is None

    with desk(World(), store=Failing()) as one:
        asyncio.run(play(one))


def test_a_step_that_cannot_be_recorded_holds_nothing_up() -> None:
    class Failing(MemoryStore):
        times = 1

        async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
            if self.times:
                self.times -= 1
                raise StoreError("away")
            return await super().update(bucket, key, value, revision)

    with desk(World(), store=Failing()) as one:
        ending = make(one, request())
    assert isinstance(ending, Finished)
    assert "error" not in ending.result.data


def test_what_is_abandoned_in_its_work_leaves_its_lease_to_run_out() -> None:
    """Its thread still waits for vCenter: what it has asked for there may yet happen."""
    world, event, go_on = World(), request(), threading.Event()
    world.between = lambda _: go_on.wait(60)

    async def play(one: Desk) -> None:
        call = dispatch(address(event), one.settings)
        task = asyncio.create_task(performed(one, address(event), Delivery(1)))
        await until(lambda: bool(world.effects))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await one.store.get(Bucket.LEASES, call.identities[0])
        go_on.set()
        await asyncio.to_thread(one.pool.shutdown)  # its thread still checks in on this loop

    with desk(world) as one:
        asyncio.run(play(one))
