"""A volume that something is to be done with: that it is whole, and which machines have it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.disks import Disk, disks_of
from vsphere_functions.vsphere.in_use import InUse, held_by, perhaps_held_by
from vsphere_functions.vsphere.metadata import Metadata
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.volumes import Leaf, judge


class OnMachine(NamedTuple):
    """A VM that has the disk at this moment, and the device that it has it as."""

    vm: Ref
    row: Row
    disk: Disk

    @property
    def has_parent(self) -> bool:
        """Whether what the VM writes to is not the disk itself but a snapshot's delta on it."""
        return bool((self.disk.device.get("backing") or {}).get("parent"))


def read_whole(leaf: Leaf, seen: InUse, operation: str, now: datetime) -> Metadata:
    """Read what is written down about a whole volume.

    Aborted while another operation makes it; FailedPrecondition, with the reason, when it is not whole or has a
    snapshot.
    """
    told, reason, moved = judge(leaf, seen)
    if reason is not None:
        refuse_unborn(leaf, operation, now)
    if reason is None and leaf.deltas:
        reason = f"it has a snapshot ({leaf.deltas[0]})"
    if told is None or reason is not None:
        where = f", to {moved}" if moved else ""
        raise CallError(
            Code.FAILED_PRECONDITION, f"volume {leaf.id!r} is not fit: {reason}{where}; nothing was changed"
        )
    return told


def refuse_unborn(leaf: Leaf, operation: str, now: datetime) -> None:
    """Wait for a volume that is being made at this moment."""
    claim = None if leaf.has_metadata else leaf.claim()
    if claim is not None and claim.holds_against(operation, now):
        raise CallError(Code.ABORTED, f"volume {leaf.id!r} is being made since {claim.since}")


def devices(seen: InUse, leaf: Leaf, uuids: Sequence[str]) -> list[OnMachine]:
    """Return the VMs that have a volume's disk now, itself or below a delta."""
    if not seen.on(uuids, leaf.spots):
        return []
    return [
        OnMachine(ref, row, disk)
        for ref, row in seen.surroundings.vms.items()
        for disk in disks_of(row.get("config.hardware.device"))
        if seen.shows(row, disk.device, uuids, leaf.spots)
    ]


def in_use(leaf: Leaf, held: Iterable[str], why: str = "") -> CallError:
    """Say who has a volume and stands in the way of what was asked."""
    return held_by(f"volume {leaf.id!r}", held, why=why)


def refuse_unread(leaf: Leaf, seen: InUse) -> None:
    """Wait until every VM can be read that may have the volume."""
    unread = seen.unread(seen.surroundings.same_place(leaf.store))
    if unread:
        raise perhaps_held_by(f"volume {leaf.id!r}", unread[0])
