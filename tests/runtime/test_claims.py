"""A record that its owner changes while others do, over a store that loses answers."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from vsphere_functions.runtime.claims import CancelRequested, Held, Superseded
from vsphere_functions.runtime.operations import (
    Begin,
    Claim,
    Record,
    Replay,
    State,
    canceled,
    finished,
    stepped,
)
from vsphere_functions.runtime.store import Bucket, Entry, MemoryStore, StoreError

KEY = "default.req"


class Flaky(MemoryStore):
    """Stores, and answers or not."""

    deaf = 0
    away = 0
    blind = False

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        if self.away:
            self.away -= 1
            raise StoreError("away")
        done = await super().update(bucket, key, value, revision)
        if self.deaf:
            self.deaf -= 1
            raise StoreError("no answer")
        return done

    async def get(self, bucket: Bucket, key: str) -> Entry | None:
        return None if self.blind else await super().get(bucket, key)


def play(scene: Callable[[Flaky, Held], Awaitable[None]]) -> None:
    async def run() -> None:
        store = Flaky()
        held = Held(store, KEY, Claim("/p", "req", "digest", 1, "one"))
        assert isinstance(await held.admit(5), Begin)
        await scene(store, held)

    asyncio.run(run())


async def stored(store: Flaky) -> Record:
    entry = await store.get(Bucket.OPERATIONS, KEY)
    assert entry
    return Record.load(entry.value)


async def change(store: Flaky, record: Record) -> None:
    entry = await store.get(Bucket.OPERATIONS, KEY)
    assert entry
    assert await store.update(Bucket.OPERATIONS, KEY, record.dump(), entry.revision)


def test_a_write_whose_answer_was_lost_is_found_out() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        store.deaf = 1
        await held.write_surely(stepped(held.record, "a"), 5)
        assert (await stored(store)).last_known_state == "a"
        store.deaf = 1
        with pytest.raises(StoreError):
            await held.write(stepped(held.record, "b"))
        await held.write(stepped(held.record, "c"))  # over one's own that nobody had confirmed
        assert (await stored(store)).last_known_state == "c"

    play(scene)


def test_an_outage_is_waited_out_as_long_as_patience_lasts() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        store.away = 3
        await held.write_surely(finished(held.record, b"{}"), 5)
        assert (await stored(store)).state is State.DONE
        store.away = 99
        with pytest.raises(StoreError):
            await held.write_surely(held.record.changed(steps=9), 0.1)

    play(scene)


def test_a_new_owner_ends_it() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        other = Held(store, KEY, Claim("/p", "req", "digest", 1, "two"))
        admission = await other.admit(5)
        assert isinstance(admission, Begin)
        before = other.ours
        await other.write(admission.record)
        assert (before, other.ours) == (False, True)
        with pytest.raises(Superseded):
            await held.write(stepped(held.record, "a"))
        await other.write(finished(other.record, b"{}"))
        assert isinstance(await held.admit(5), Replay)

    play(scene)


def test_of_two_that_claim_at_once_one_wins() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        await held.write(held.record.changed(claim=""))
        others = [Held(store, KEY, Claim("/p", "req", "digest", 1, name)) for name in ("two", "three")]
        admissions = [await other.admit(5) for other in others]
        assert all(isinstance(admission, Begin) for admission in admissions)
        first, second = admissions
        assert isinstance(first, Begin)
        assert isinstance(second, Begin)
        await others[0].write(first.record)
        with pytest.raises(Superseded):
            await others[1].write(second.record)

    play(scene)


def test_a_record_that_is_gone_has_no_owner() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        store.blind = True
        with pytest.raises(Superseded):
            await held.admit(5)
        await change_unseen(store, held)
        with pytest.raises(Superseded):
            await held.write(stepped(held.record, "a"))

    async def change_unseen(store: Flaky, held: Held) -> None:
        store.blind = False
        await change(store, held.record.changed(steps=5))
        store.blind = True

    play(scene)


def test_a_wish_to_cancel_is_heard_at_the_next_step_and_a_result_stands_over_it() -> None:
    async def scene(store: Flaky, held: Held) -> None:
        await change(store, canceled(held.record, "/p", "req"))
        with pytest.raises(CancelRequested):
            await held.write(stepped(held.record, "a"))
        await change(store, canceled(held.record, "/p", "req"))
        await held.write(finished(held.record, b"{}"))
        assert (await stored(store)).state is State.DONE

    play(scene)
