"""Many volumes at once: one browse for each store, metadata read in parallel, what is amiss said beside."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import Volume, VolumeState
from vsphere_functions.vsphere import claims_file
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.stores import Store, StoreConfig
from vsphere_functions.vsphere.volumes import Leaf, browse, describe, volume_of

T = TypeVar("T")

READERS = 8
"""Metadata reads that run at once."""


@dataclass(slots=True)
class Shelves:
    """What lies in some stores, not read yet: volumes' folders by (store, id), in that order."""

    leaves: dict[tuple[str, str], Leaf] = field(default_factory=dict)
    strays: list[Volume] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)


def look_through(seen: InUse, configs: Iterable[StoreConfig], *, only: bool) -> Shelves:
    """Browse stores; one that cannot be is named, or its error raised when it is the `only` one asked for."""
    found = Shelves()
    for config in configs:
        try:
            store = seen.surroundings.store(config.name)
            leaves, strays = browse(store)
        except CallError as error:
            if only or error.code is Code.UNAUTHENTICATED:
                raise
            found.unreachable.append(config.name)
            continue
        found.leaves |= {(store.name, name): leaf for name, leaf in sorted(leaves.items())}
        found.strays += [_stray(store, name) for name in strays]
    return found


def read_all(leaves: Iterable[Leaf], seen: InUse) -> list[Volume]:
    """Read and describe volumes, several at once; one that cannot be read is degraded and spoils no other."""

    def read(leaf: Leaf) -> Volume:
        try:
            return describe(leaf, seen)
        except CallError as error:
            return volume_of(leaf, None, reason=f"it cannot be read: {error.message}")

    return _in_parallel(read, leaves)


def audited(leaf: Leaf, volume: Volume, now: datetime) -> Volume:
    """Look closer: at what belongs to no volume, disks that have lost their extents, and old claims."""
    reasons = list(_amiss(leaf, now))
    if not reasons:
        return volume
    told = "; ".join(filter(None, (volume.reason, *reasons)))
    state = VolumeState.MOVED if volume.state is VolumeState.MOVED else VolumeState.DEGRADED
    return volume.model_copy(update={"state": state, "reason": told})


def capacities(leaves: Iterable[Leaf]) -> int:
    """Add up what volumes may grow to, in KiB; what cannot be read counts as nothing."""

    def read(leaf: Leaf) -> int:
        try:
            told = leaf.metadata()
        except ValueError:
            return 0
        return (told.capacity_kb or 0) if told else 0

    return sum(_in_parallel(read, leaves))


def _in_parallel(work: Callable[[Leaf], T], leaves: Iterable[Leaf]) -> list[T]:
    with ThreadPoolExecutor(READERS, "volume-metadata") as pool:
        return list(pool.map(work, leaves))


def _amiss(leaf: Leaf, now: datetime) -> Iterator[str]:
    if leaf.foreign:
        yield f"it holds what belongs to no volume: {', '.join(leaf.unknown[:5])}"
    if leaf.has_disk and f"{leaf.id}-flat.vmdk" not in leaf.files:
        yield "its disk has no extent"
    if leaf.has_claim and not leaf.has_metadata:
        claim = leaf.claim()
        if claim is None or claim.age(now) > claims_file.OLD:
            yield f"its create began on {claim.since} and never ended" if claim else "its claim is unreadable"


def _stray(store: Store, name: str) -> Volume:
    """Show a file that lies in the store itself."""
    leaf = Leaf(store, name)
    shown = volume_of(leaf, None, reason="a file that belongs to no volume")
    return shown.model_copy(update={"vmdk_path": str(leaf.path)})
