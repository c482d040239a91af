"""Leases over a store that loses answers, and the fence that stands on them."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from support.jetstream import until
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.leases import Lease
from vsphere_functions.runtime.store import Bucket, MemoryStore, StoreError


class Flaky(MemoryStore):
    """Does what it is asked, but does not always say so."""

    deaf = False
    away = False

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        if self.away:
            raise StoreError("away")
        done = await super().update(bucket, key, value, revision)
        if self.deaf:
            raise StoreError("no answer")
        return done

    async def delete(self, bucket: Bucket, key: str, revision: int) -> int | None:
        if self.away:
            raise StoreError("away")
        return await super().delete(bucket, key, revision)


def play(scene: Callable[[Flaky], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene(Flaky())

    asyncio.run(run())


def refused(lease: Lease) -> bool:
    try:
        lease.check()
    except CallError as error:
        return error.code is Code.ABORTED
    return False


def test_all_keys_are_taken_or_none() -> None:
    async def scene(store: Flaky) -> None:
        first = Lease(store, ["b"], "one", 10)
        second = Lease(store, ["c", "a", "b"], "two", 10)
        assert await first.take()
        assert not await second.take()
        assert refused(second)
        assert await store.get(Bucket.LEASES, "a") is None
        await first.release()
        assert refused(first)
        assert await second.take()
        assert not refused(second)

    play(scene)


def test_it_is_kept_by_renewal_and_its_fence_falls_before_it_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """E22: by a clock that goes on while the machine sleeps, and a margin before the end."""
    now = [100.0]
    clocks = {time.CLOCK_BOOTTIME: now}
    monkeypatch.setattr("time.clock_gettime", lambda clock: clocks[clock][0])

    async def scene(store: Flaky) -> None:
        lease = Lease(store, ["a"], "one", 10)
        assert await lease.take()
        now[0] = 107.9
        assert not refused(lease)
        now[0] = 108.0
        assert refused(lease)
        await lease._renew()
        assert not refused(lease)
        store.away = True
        now[0] = 115.9
        await lease._renew()
        assert not refused(lease), "while nobody answers, the clock decides"
        now[0] = 116.0
        assert refused(lease)

    play(scene)


def test_a_renewal_whose_answer_was_lost_is_found_out() -> None:
    async def scene(store: Flaky) -> None:
        lease = Lease(store, ["a"], "one", 10)
        assert await lease.take()
        store.deaf = True
        await lease._renew()
        store.deaf = False
        found = await store.get(Bucket.LEASES, "a")
        await lease._renew()
        assert not refused(lease)
        renewed = await store.get(Bucket.LEASES, "a")
        assert found
        assert renewed
        assert renewed.revision > found.revision  # it lasts from now on, and not from then on
        await lease.release()
        assert await store.get(Bucket.LEASES, "a") is None

    play(scene)


@pytest.mark.parametrize("taken", [True, False])
def test_a_lease_that_is_gone_is_lost_for_good(taken: bool) -> None:
    async def scene(store: Flaky) -> None:
        lease = Lease(store, ["a"], "one", 0.03)
        assert await lease.take()
        entry = await store.get(Bucket.LEASES, "a")
        assert entry
        await store.delete(Bucket.LEASES, "a", entry.revision)
        if taken:
            await store.create(Bucket.LEASES, "a", b"two")
        with lease.kept():
            await until(lambda: lease._lost)
        assert refused(lease)
        with pytest.raises(CallError):
            await asyncio.to_thread(lease.confirm)

    play(scene)


def test_confirming_asks_the_store_from_the_thread_that_works() -> None:
    async def scene(store: Flaky) -> None:
        lease = Lease(store, ["a"], "one", 10)
        assert await lease.take()
        before = await store.get(Bucket.LEASES, "a")
        await asyncio.to_thread(lease.confirm)
        after = await store.get(Bucket.LEASES, "a")
        assert before
        assert after
        assert after.revision > before.revision

    play(scene)


def test_a_release_that_cannot_be_sent_is_left_to_the_clock() -> None:
    async def scene(store: Flaky) -> None:
        lease = Lease(store, ["a", "b"], "one", 10)
        assert await lease.take()
        store.away = True
        await lease.release()
        assert refused(lease)

    play(scene)
