"""What a process knows of the caps and of who waits for them, so that it asks no more often than it helps."""

import asyncio
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from vsphere_functions.runtime.dispatch import Call
from vsphere_functions.runtime.settings import Limits
from vsphere_functions.runtime.store import key_of

_FULL_STILL = 1 / 8
"""Of limits.retry_seconds: for so long a cap that was full is taken to be full, as waits begin."""
_REMEMBERED = 5.0  # seconds that a look lasts, so that what resumed creates hold beyond a cap is seen
_MANY = 1000  # caps, above which those are dropped of which nothing is known any more
_GRACE = 1.0  # seconds: a request that has not come back by then has gone to another worker


@dataclass(frozen=True, slots=True)
class Cap:
    """How many creates in flight may share a thing; `key` names the thing to all workers alike."""

    key: str
    slots: int


def caps_of(call: Call, limits: Limits) -> tuple[Cap, ...]:
    """Name what a create is counted under: its template, its datastore or storage pod, its vCenter."""
    if call.makes is None:
        return ()
    spec = call.request.provider_spec
    pod = spec.datastore_cluster
    storage = ("pod", pod) if pod else ("datastore", spec.datastore)
    where = (call.host, spec.datacenter or "")
    return (
        Cap(key_of(*where, "template", spec.template_vm), limits.creates_per_template),
        Cap(key_of(*where, *storage), limits.creates_per_datastore),
        Cap(key_of(call.host, "vcenter"), limits.creates_per_vcenter),
    )


class _Line:
    """The requests that wait for one cap, by sequence, each with the time at which it must have come back."""

    def __init__(self) -> None:
        self.full_until = 0.0
        self._back_by: dict[int, float] = {}
        self._sequences: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._sequences)

    def join(self, sequence: int, back_by: float) -> None:
        if sequence not in self._back_by:
            insort(self._sequences, sequence)
        self._back_by[sequence] = back_by

    def leave(self, sequence: int) -> None:
        if self._back_by.pop(sequence, None) is not None:
            del self._sequences[bisect_left(self._sequences, sequence)]

    def ahead(self, sequence: int, first: int, now: float) -> int:
        """Count those before; of the `first` ones those have gone that did not come back in time."""
        while gone := [one for one in self._sequences[:first] if self._back_by[one] < now]:
            for one in gone:
                self.leave(one)
        return bisect_left(self._sequences, sequence)


@dataclass(slots=True)
class _Free:
    """Slots that a look has found free, or that were given back here since, with the revisions to write over."""

    until: float
    slots: dict[str, int]


class Gate:
    """The lines before the caps as this process has seen them; what others have seen it finds out by asking.

    `looking` is held by the one that looks for slots.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[str, _Line] = {}
        self._free: dict[str, _Free] = {}
        self.looking = asyncio.Lock()

    def crowded(self, caps: Iterable[Cap]) -> bool:
        """Tell whether somebody waits for one of the caps, or was just turned away."""
        return any(cap.key in self._lines for cap in caps)

    def closed(self, caps: Iterable[Cap], sequence: int | None) -> Cap | None:
        """Name a cap that is known to be full, or for which as many older requests wait as it has slots."""
        return next((cap for cap in caps if self._closed(cap, sequence)), None)

    def _closed(self, cap: Cap, sequence: int | None) -> bool:
        line = self._lines.get(cap.key)
        if line is None:
            return False
        now = self._clock()
        too_early = sequence is not None and line.ahead(sequence, cap.slots, now) >= cap.slots
        return too_early or now < line.full_until

    def found_full(self, cap: Cap, limits: Limits) -> None:
        """Take a cap to be full for a moment."""
        self._tidy()
        self._free.pop(cap.key, None)
        line = self._lines.setdefault(cap.key, _Line())
        line.full_until = self._clock() + limits.retry_seconds * _FULL_STILL

    def wait(self, cap: Cap, sequence: int, seconds: float) -> None:
        """Put a request into line, from where it comes back after so many seconds."""
        self._lines.setdefault(cap.key, _Line()).join(sequence, self._clock() + seconds + _GRACE)

    def ahead(self, cap: Cap, sequence: int | None) -> int:
        """Count the older requests that wait for a cap."""
        line = self._lines.get(cap.key)
        return 0 if line is None or sequence is None else line.ahead(sequence, cap.slots, self._clock())

    def entered(self, caps: Iterable[Cap], sequence: int | None) -> None:
        """Take a request out of line, whatever it has waited for."""
        for cap in caps:
            line = self._lines.get(cap.key)
            if line is not None and sequence is not None:
                line.leave(sequence)
            if line is not None and not line and line.full_until <= self._clock():
                del self._lines[cap.key]

    def opened(self, caps: Collection[Cap], freed: Mapping[str, int]) -> None:
        """Note that slots have just come free here, each with the revision to write over."""
        for cap, (key, revision) in zip(caps, freed.items(), strict=False):
            if cap.key in self._free and int(key.rpartition(".")[2]) < cap.slots:
                self._free[cap.key].slots[key] = revision
            if cap.key in self._lines:
                self._lines[cap.key].full_until = 0.0
        self.entered(caps, None)

    def found_free(self, cap: Cap, slots: dict[str, int]) -> None:
        """Remember for a while what a look has found free."""
        self._tidy()
        self._free[cap.key] = _Free(self._clock() + _REMEMBERED, slots)

    def _tidy(self) -> None:
        """Drop what says nothing any more, once there is much: requests name templates as they like."""
        if len(self._free) + len(self._lines) < _MANY:
            return
        now = self._clock()
        self._free = {key: one for key, one in self._free.items() if now < one.until}
        self._lines = {key: one for key, one in self._lines.items() if one or now < one.full_until}

    def forget(self, caps: Iterable[Cap]) -> None:
        """Remember nothing: others have been faster."""
        for cap in caps:
            self._free.pop(cap.key, None)

    def grab(self, caps: Iterable[Cap]) -> dict[str, int]:
        """Give a free slot under each cap, the last one given back first; nothing when one is not known."""
        known = [self._free.get(cap.key) for cap in caps]
        now = self._clock()
        if all(one and one.slots and now < one.until for one in known):
            return dict(one.slots.popitem() for one in known if one)
        return {}
