"""What nobody asked for any more: an owner's machines that no list knows, and what is left of unfinished volumes."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from vsphere_events.orphan import Orphaned, OrphanMachine, OrphanVolume
from vsphere_events.provider_id import ProviderID
from vsphere_functions.vsphere import metadata
from vsphere_functions.vsphere.claims_file import OLD
from vsphere_functions.vsphere.in_use import WHERE, InUse
from vsphere_functions.vsphere.inventory import Inventory
from vsphere_functions.vsphere.machine import Machine, node_name, provider_id
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.stores import Stores, look_around
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import Leaf
from vsphere_functions.vsphere.volumes_list import Shelves, look_through

_BEGINNING = datetime(1971, 1, 1, tzinfo=UTC)
"""What was made before vCenter wrote it down has the date of 1970."""

Wanted = Mapping[str, Collection[ProviderID | None]]
"""The machines that a caller knows: by name, each incarnation, None for whichever there is."""


@dataclass(frozen=True, slots=True)
class Found:
    """An orphan: its id, why it is one, how old it is (None when nobody knows), and a machine's providerID."""

    id: Orphaned
    reason: str
    age: timedelta | None
    provider_id: ProviderID | None = None

    def is_old(self, least: timedelta) -> bool:
        """Say whether it is left over, and not just being made: what has no known age is not old."""
        return not least or (self.age is not None and self.age >= least)


def machine_orphans(
    vcenter: VCenter, found: Inventory, wanted: Wanted, making: Collection[str], now: datetime
) -> list[Found]:
    """Find the owner's machines that are none of the wanted ones, and that no request is making."""
    reasons = [(one, _unwanted(one, wanted)) for one in found.machines if node_name(one) not in making]
    left = [(one, reason) for one, reason in reasons if reason]
    births = _births(vcenter, [one.ref for one, _ in left])
    return [
        Found(machine_id(one), reason, _age(births.get(one.ref), now), provider_id(one))
        for one, reason in left
    ]


def machine_id(machine: Machine) -> OrphanMachine:
    """Name this incarnation of a machine."""
    return OrphanMachine(machine.ref.id, machine.uuid or "", node_name(machine))


def _unwanted(machine: Machine, wanted: Wanted) -> str | None:
    known = wanted.get(node_name(machine))
    if known is None:
        half = "" if machine.ready else "; it is half built, and no request is making it"
        return f"none of the machines that are known has its name{half}"
    mark = machine.mark
    own = {machine.uuid, mark and mark.uuid, mark and mark.incarnation}
    if any(one is None or one.uuid in own for one in known):
        return None
    return "another incarnation of this machine is the one that is known"


def _births(vcenter: VCenter, refs: list[Ref]) -> dict[Ref, str | None]:
    rows = vcenter.read(refs, {"VirtualMachine": ("config.createDate",)}) if refs else {}
    return {ref: row.get("config.createDate") for ref, row in rows.items()}


def shelves_of(vcenter: VCenter, stores: Stores) -> Shelves:
    """Look into all stores of the request's vCenter; those that are out of reach are named."""
    if not stores.own:
        return Shelves()
    return look_through(InUse(look_around(vcenter, stores, WHERE)), stores.own, only=False)


def volume_orphans(leaves: Iterable[Leaf], now: datetime) -> list[Found]:
    """Find creates and destroys of volumes that never ended, of at least an hour.

    No volume that is whole is one, attached or not: it holds data. Nor is a disk that nobody has claimed, or that lay
    there before it was claimed.
    """
    found = [one for leaf in leaves for one in _unfinished(leaf, now)]
    return [one for one in found if one.is_old(OLD)]


def remains(ids: Iterable[Orphaned], shelves: Shelves) -> Iterator[Found]:
    """Find what an interrupted sweep has left of volumes that an answer named: files without a disk, or a folder."""
    for one in ids:
        leaf = shelves.leaves.get((one.store, one.id)) if isinstance(one, OrphanVolume) else None
        if leaf and (leaf.bare or (volume_id(leaf) == one and not leaf.has_disk and not leaf.has_doomed)):
            yield Found(one, "a part of it is left", None)


def volume_id(leaf: Leaf) -> OrphanVolume:
    """Name a volume's folder by who has claimed it when, or by its metadata: these go last when it is swept."""
    claim = leaf.claim()
    try:
        body = claim.render() if claim else leaf.read(metadata.FILE)
    except ValueError:
        body = None
    return OrphanVolume(leaf.store.name, leaf.id, sha256(body or b"").hexdigest()[:12])


def _unfinished(leaf: Leaf, now: datetime) -> Iterator[Found]:
    if leaf.has_doomed and not (leaf.has_disk and leaf.has_metadata):
        age = _age(leaf.store.files.modified(leaf.doomed), now)
        yield Found(volume_id(leaf), "its destroy has begun and never ended", age)
    elif leaf.has_claim and not leaf.has_metadata and leaf.vic is None:
        claim = leaf.claim()
        if claim is not None and not claim.found:
            reason = f"its create began on {claim.since} and never ended"
            yield Found(volume_id(leaf), reason, _age(claim.since, now))


def _age(since: str | None, now: datetime) -> timedelta | None:
    """Return how long ago that was; None for no date, one without a zone, and one that means that there is none."""
    try:
        at = datetime.fromisoformat(since or "")
        return now - at if at > _BEGINNING else None
    except (TypeError, ValueError):
        return None
