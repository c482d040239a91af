"""Leases on machines and volumes, and the fence that stands on them."""

import asyncio
import time
from collections.abc import Iterable

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.store import Bucket, Store, StoreError

_MARGIN = 0.2  # of the lease: a call sent just before its end still has to arrive


def _now() -> float:
    """Return seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """What a try holds while it works: all of its keys, or none.

    Made and renewed on the event loop; `check` and `confirm` are for the thread that works (the Fence protocol).
    """

    def __init__(self, store: Store, keys: Iterable[str], holder: str, seconds: float) -> None:
        self._store = store
        self._keys = sorted(set(keys))
        self._holder = holder.encode()
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
            revision = await self._store.create(Bucket.LEASES, key, self._holder)
            if revision is None:
                await self.release()
                return False
            self._held[key] = revision
        self._renewed(begun)
        return True

    async def keep(self) -> None:
        """Renew it, three times in its span, until it is lost."""
        while not self._lost:
            await asyncio.sleep(self._seconds / 3)
            await self._renew()

    async def release(self) -> None:
        """Let go of what is held; what cannot be reached runs out by itself."""
        self._fresh_until = 0.0
        held, self._held = self._held, {}
        for key, revision in held.items():
            try:
                await self._store.delete(Bucket.LEASES, key, revision)
            except StoreError:
                return

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
            try:
                self._lost = self._lost or not all([await self._renew_key(key) for key in self._held])
            except StoreError:
                return  # the clock decides
            if not self._lost:
                self._renewed(begun)

    async def _renew_key(self, key: str) -> bool:
        revision = await self._store.update(Bucket.LEASES, key, self._holder, self._held[key])
        if revision is None:
            # An earlier renewal may have arrived though its answer did not.
            entry = await self._store.get(Bucket.LEASES, key)
            if entry is None or entry.value != self._holder:
                return False
            revision = entry.revision
        self._held[key] = revision
        return True

    def _renewed(self, begun: float) -> None:
        self._fresh_until = begun + self._seconds * (1 - _MARGIN)
