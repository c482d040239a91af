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

    A look, unless the gate remembers one, and then a compare-and-set for each, all at once: two round trips at most.
    Whoever gets less than all lets go of all, so nobody waits for anybody.
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

    async def take(self, limits: Limits, *, first: bool) -> bool:
        """Take free ones; none when a cap is full or others come first, or when an earlier try has left some.

        `first`: there was no earlier try, so there is nothing to look for.
        """
        if self.taken or self._is_closed() or (first and await self._grab()):
            return self.taken
        for _ in range(_ROUNDS):
            async with self._gate.looking:  # whoever waits here may find what the one before has seen
                if self._is_closed() or (first and await self._grab()):
                    break
                chosen = await self._look(limits, resumed=False, beyond=False)
            if not chosen or await self._write(chosen):
                break
        else:
            self.full = self.caps[-1]
        return self.taken

    async def resume(self, limits: Limits, *, beyond: bool) -> bool:
        """Take over what an earlier try has left; only under the operation's lease.

        `beyond`: it broke off in the middle of its work, so it goes on, and counts, even where a cap is full.
        """
        for _ in range(_ROUNDS):
            if self.taken:
                break
            chosen = await self._look(limits, resumed=True, beyond=beyond)
            if not chosen or await self._write(chosen):
                break
        else:
            self.full = self.caps[-1]
        return self.taken

    def _is_closed(self) -> bool:
        self.full = self._gate.closed(self.caps, self._sequence)
        return self.full is not None

    async def _grab(self) -> bool:
        """Take slots that are known to be free, without a look."""
        known = self._gate.grab(self.caps)
        return bool(known) and await self._write(known)

    async def _look(self, limits: Limits, *, resumed: bool, beyond: bool) -> dict[str, int]:
        """Choose a slot under each cap, with the revision to write over; remember what else is free."""
        known = await self._store.under(Bucket.LEASES, *map(_place, self.caps))
        found = [_Found(cap, known) for cap in self.caps]
        left = [one.left_to(self._lease.holder) for one in found]
        self.left_to_us = any(left)
        if self.left_to_us and not resumed:
            return {}
        chosen = [key or one.choose(beyond=beyond) for key, one in zip(left, found, strict=True)]
        self.full = next((cap for cap, key in zip(self.caps, chosen, strict=True) if key is None), None)
        if self.full:
            self._gate.found_full(self.full, limits)
            return {}
        for cap, one in zip(self.caps, found, strict=True):
            free = (key for key in one.free if key not in chosen)
            self._gate.found_free(cap, {key: _revision(known, key) for key in free})
        return {key: _revision(known, key) for key in chosen if key}

    async def _write(self, chosen: Mapping[str, int]) -> bool:
        """Write over the revisions that were seen: all or none."""
        put = (self._store.update(Bucket.LEASES, key, self._lease.holder, at) for key, at in chosen.items())
        answers = zip(chosen, await asyncio.gather(*put, return_exceptions=True), strict=True)
        won = {key: revision for key, revision in answers if isinstance(revision, int)}
        if len(won) == len(self.caps):
            self._lease.add(won)
            self.keys = tuple(won)
            self._gate.entered(self.caps, self._sequence)
            return True
        self._gate.forget(self.caps)
        await asyncio.gather(*(self._store.delete(Bucket.LEASES, *one) for one in won.items()))
        return False


class _Found:
    """The slots under a cap as they were found; `free` are as many as the cap leaves, in no order.

    What counts is how many are taken: numbers over the cap are those of resumed creates, or of a higher cap.
    """

    def __init__(self, cap: Cap, known: Mapping[str, Entry]) -> None:
        self._cap, self._place = cap, _place(cap)
        self._notes = {
            key: entry.value
            for key, entry in known.items()
            if entry.value and key.rpartition(".")[0] == self._place
        }
        numbers = (key for n in range(cap.slots) if (key := f"{self._place}.{n}") not in self._notes)
        self.free = [key for _, key in zip(range(cap.slots - len(self._notes)), numbers, strict=False)]
        random.shuffle(self.free)  # spreads those that look at once

    def left_to(self, holder: bytes) -> str | None:
        """Find one that an earlier try of the holder's operation has left."""
        operation = holder.partition(b" ")[0]
        return next((key for key, said in self._notes.items() if said.partition(b" ")[0] == operation), None)

    def choose(self, *, beyond: bool) -> str | None:
        """Choose a free one; beyond the cap the next number, if need be."""
        if self.free or not beyond:
            return self.free[0] if self.free else None
        over = range(self._cap.slots, self._cap.slots + len(self._notes) + 1)
        return next(key for n in over if (key := f"{self._place}.{n}") not in self._notes)


def _revision(known: Mapping[str, Entry], key: str) -> int:
    return known[key].revision if key in known else 0


def _place(cap: Cap) -> str:
    return f"slot.{cap.key}"
