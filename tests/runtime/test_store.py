"""Records in memory: compare-and-set, and no more of them than fit."""

import asyncio

from vsphere_functions.runtime.store import Bucket, MemoryStore


def test_what_was_written_longest_ago_is_forgotten_first() -> None:
    async def run() -> None:
        store = MemoryStore(most=3)
        for key in ("a", "b", "c"):
            await store.create(Bucket.OPERATIONS, key, b"1")
        entry = await store.get(Bucket.OPERATIONS, "a")
        assert entry
        await store.update(Bucket.OPERATIONS, "a", b"2", entry.revision)
        await store.create(Bucket.IDENTITIES, "d", b"1")
        assert await store.get(Bucket.OPERATIONS, "b") is None
        for bucket, key in ((Bucket.OPERATIONS, "a"), (Bucket.OPERATIONS, "c"), (Bucket.IDENTITIES, "d")):
            assert await store.get(bucket, key)
        assert await store.create(Bucket.OPERATIONS, "b", b"1"), "what is forgotten can be written anew"

    asyncio.run(run())


def test_big_values_push_others_out_and_leases_are_never_forgotten() -> None:
    async def run() -> None:
        store = MemoryStore(most_bytes=100)
        held = await store.create(Bucket.LEASES, "lease", b"holder")
        for n in range(1000):
            await store.create(Bucket.OPERATIONS, str(n), b"x" * 40)
        assert [n for n in range(1000) if await store.get(Bucket.OPERATIONS, str(n))] == [998, 999]
        await store.create(Bucket.OPERATIONS, "huge", b"x" * 500)
        assert await store.get(Bucket.OPERATIONS, "huge")
        assert held
        assert await store.delete(Bucket.LEASES, "lease", held) == 0
        entry = await store.get(Bucket.OPERATIONS, "huge")
        assert entry
        assert await store.delete(Bucket.OPERATIONS, "huge", entry.revision) == 0
        for n in range(9):
            await store.create(Bucket.OPERATIONS, f"again {n}", b"x" * 10)
        assert all([await store.get(Bucket.OPERATIONS, f"again {n}") for n in range(9)])

    asyncio.run(run())
