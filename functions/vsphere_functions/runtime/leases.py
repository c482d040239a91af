"""Leases on machines and volumes, and the fence that stands on them."""

import asyncio
import time
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar, cast

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.store import Bucket, Store, StoreError

T = TypeVar("T")

_MARGIN = 0.2  # of the lease: a call sent just before its end still has to arrive


def _now() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def together(*work: Awaitable[T]) -> list[T]:
    """Await all to their ends, so that none goes on unseen when another fails; one alone needs no task."""
    if len(work) == 1:
        return [await work[0]]
    found = await asyncio.gather(*work, return_exceptions=True)
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return cast("list[T]", found)


class Lease:
    """What a try holds while it works: all of its keys, or none.

    Made and renewed on the event loop; `check` and `confirm` are for the thread that works (the Fence protocol).
    """

    def __init__(self, store: Store, keys: Iterable[str], holder: str, seconds: float) -> None:
        self._store = store
        self._keys = sorted(set(keys))
        self.holder = holder.encode()
        self._seconds = seconds
        self._held: dict[str, int] = {}
        self._fresh_until = 0.0
        self._lost = False
        self._loop = asyncio.get_running_loop()
        self._renewing = asyncio.Lock()

    async def take(self) -> bool:
        """Take every key in order; on the first that another holds, let go of all."""
        begun = _now()
        for key in self._keys:
            revision = await self._store.create(Bucket.LEASES, key, self.holder)
            if revision is None:
                await self.release()
                return False
            self._held[key] = revision
        self._renewed(begun)
        return True

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Renew it, three times in its span, until the block ends or it is lost; a short block costs nothing."""
        keeping: list[asyncio.Task[None]] = []
        every = self._seconds / 3
        timer = self._loop.call_later(
            every, lambda: keeping.append(self._loop.create_task(self._keep(every)))
        )
        try:
            yield
        finally:
            timer.cancel()
            for task in keeping:
                task.cancel()

    async def _keep(self, every: float) -> None:
        while not self._lost:
            await self._renew()
            await asyncio.sleep(every)

    def add(self, held: Mapping[str, int]) -> None:
        """Hold more keys, which are taken already: they are renewed, lost and released with the others."""
        self._held.update(held)

    async def release(self, leaving: Collection[str] = ()) -> dict[str, int]:
        """Let go of what is held, and say what each key can be written over at; the rest runs out by itself."""
        self._fresh_until = 0.0
        held, self._held = self._held, {}
        keys = [key for key in held if key not in leaving]
        freed = await together(*(self._release(key, held[key]) for key in keys))
        return {key: revision for key, revision in zip(keys, freed, strict=True) if revision is not None}

    async def _release(self, key: str, held: int) -> int | None:
        with suppress(StoreError):
            revision = await self._store.delete(Bucket.LEASES, key, held)
            if revision is not None:
                return revision
            # A renewal that was cut short may have arrived.
            entry = await self._store.get(Bucket.LEASES, key)
            if entry is not None and entry.value == self.holder:
                return await self._store.delete(Bucket.LEASES, key, entry.revision)
        return None

    def check(self) -> None:
        """Refuse with Aborted unless the lease was renewed recently enough."""
        if self._lost or _now() >= self._fresh_until:
            raise CallError(Code.ABORTED, "the lease on the machine has run out; another worker may hold it")

    def confirm(self) -> None:
        """Renew it now; Aborted when it is lost (while the store does not answer, the clock decides)."""
        asyncio.run_coroutine_threadsafe(self._renew(), self._loop).result()
        self.check()

    async def _renew(self) -> None:
        async with self._renewing:
            begun = _now()
            renewals = (self._renew_key(*one) for one in self._held.items())
            kept = await asyncio.gather(*renewals, return_exceptions=True)
            self._lost = self._lost or False in kept
            if not self._lost and all(one is True for one in kept):
                self._renewed(begun)  # else a store that does not answer: the clock decides

    async def _renew_key(self, key: str, held: int) -> bool:
        revision = await self._store.update(Bucket.LEASES, key, self.holder, held)
        if revision is None:
            # An earlier renewal may have arrived though its answer did not; it lasts from then on, so it is not enough.
            entry = await self._store.get(Bucket.LEASES, key)
            if entry is None or entry.value != self.holder:
                return False
            revision = await self._store.update(Bucket.LEASES, key, self.holder, entry.revision)
            if revision is None:
                raise StoreError("the lease is ours and cannot be renewed yet")
        if key in self._held:
            self._held[key] = revision
        return True

    def _renewed(self, begun: float) -> None:
        self._fresh_until = begun + self._seconds * (1 - _MARGIN)
