"""Numbered slots under each cap, in the bucket of leases: as many creates are in flight as there are slots taken."""

import asyncio
import random
from collections.abc import Mapping

from vsphere_functions.runtime.gate import Cap, Gate
from vsphere_functions.runtime.leases import Lease
from vsphere_functions.runtime.settings import Limits
from vsphere_functions.runtime.store import Bucket, Entry, Store

_ROUNDS = 3  # of looking and losing every time to others; then the cap is as good as full


def holder_of(operation: str, name: str) -> str:
    """Write what stands in a lease or slot: its operation, which keeps a slot for its next try, and the try."""
    return f"{operation} {name}"


class Slots:
    """The slots of a try: one under each cap, or none; held, renewed and released with its lease.

    A look and then a compare-and-set for each, all at once: two round trips. Whoever gets less than all lets go of
    all, so nobody waits for anybody.
    """

    def __init__(
        self, store: Store, gate: Gate, lease: Lease, caps: tuple[Cap, ...], sequence: int | None
    ) -> None:
        self._store = store
        self._gate = gate
        self._lease = lease
        self._sequence = sequence
        self.caps = caps
        self.keys: tuple[str, ...] = ()
        self.full: Cap | None = None
        self.left_to_us = False

    @property
    def taken(self) -> bool:
        """Whether there is one under each cap."""
        return len(self.keys) == len(self.caps)

    async def take(self, limits: Limits) -> bool:
        """Take free ones; none when a cap is full or others come first, or when an earlier try has left some."""
        if not self.taken:
            self.full = self._gate.closed(self.caps, self._sequence)
            if self.full is None:
                await self._take(limits, resumed=False, beyond=False)
        return self.taken

    async def resume(self, limits: Limits, *, beyond: bool) -> bool:
        """Take over what an earlier try has left; only under the operation's lease.

        `beyond`: it broke off in the middle of its work, so it goes on, and counts, even where a cap is full.
        """
        if not self.taken:
            await self._take(limits, resumed=True, beyond=beyond)
        return self.taken

    async def _take(self, limits: Limits, *, resumed: bool, beyond: bool) -> None:
        for _ in range(_ROUNDS):
            known = await self._store.under(Bucket.LEASES, *map(_place, self.caps))
            slots = [_Taken(cap, known) for cap in self.caps]
            left = [one.left_to(self._lease.holder) for one in slots]
            self.left_to_us = any(left)
            if self.left_to_us and not resumed:
                return
            chosen = [key or one.choose(beyond=beyond) for key, one in zip(left, slots, strict=True)]
            self.full = next((cap for cap, key in zip(self.caps, chosen, strict=True) if key is None), None)
            if self.full:
                self._gate.found_full(self.full, limits)
                return
            if await self._write([key for key in chosen if key], known):
                self._gate.entered(self.caps, self._sequence)
                return
        self.full = self.caps[-1]

    async def _write(self, keys: list[str], known: Mapping[str, Entry]) -> bool:
        put = (self._put(key, known.get(key)) for key in keys)
        answers = zip(keys, await asyncio.gather(*put, return_exceptions=True), strict=True)
        won = {key: revision for key, revision in answers if isinstance(revision, int)}
        if len(won) == len(keys):
            self._lease.add(won)
            self.keys = tuple(keys)
            return True
        await asyncio.gather(*(self._store.delete(Bucket.LEASES, *one) for one in won.items()))
        return False

    async def _put(self, key: str, entry: Entry | None) -> int | None:
        revision = entry.revision if entry else 0
        return await self._store.update(Bucket.LEASES, key, self._lease.holder, revision)


class _Taken:
    """The slots under a cap as they were found."""

    def __init__(self, cap: Cap, known: Mapping[str, Entry]) -> None:
        self._cap = cap
        place = _place(cap)
        self._notes = {
            key: entry.value
            for key, entry in known.items()
            if entry.value and key.rpartition(".")[0] == place
        }

    def left_to(self, holder: bytes) -> str | None:
        """Find one that an earlier try of the holder's operation has left."""
        operation = holder.partition(b" ")[0]
        return next((key for key, said in self._notes.items() if said.partition(b" ")[0] == operation), None)

    def choose(self, *, beyond: bool) -> str | None:
        """Choose a free one, at random among as many as the cap leaves; beyond it the next number, if need be.

        What counts is how many are taken: numbers over the cap are those of resumed creates, or of a higher cap.
        """
        place, room = _place(self._cap), self._cap.slots - len(self._notes)
        numbers = (key for n in range(self._cap.slots) if (key := f"{place}.{n}") not in self._notes)
        free = [key for _, key in zip(range(room), numbers, strict=False)]
        if free:
            return random.choice(free)  # noqa: S311 - spreads those that look at once
        return f"{place}.{self._next()}" if beyond else None

    def _next(self) -> int:
        taken = {int(key.rpartition(".")[2]) for key in self._notes}
        return next(n for n in range(self._cap.slots, self._cap.slots + len(taken) + 1) if n not in taken)


def _place(cap: Cap) -> str:
    return f"slot.{cap.key}"
