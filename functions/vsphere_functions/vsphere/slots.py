"""Free places for disks on a VM's SCSI controllers."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError

UNITS = 16
"""Unit numbers of a SCSI controller; one of them is its own."""
ITS_OWN = 7
CONTROLLERS = 4
"""SCSI controllers that a VM can have."""
_NEW = -100
_BEST = "ParaVirtualSCSIController"


def slots(devices: Iterable[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield controller key and unit number of each free slot behind the VM's first disk.

    Behind, since what lies first on the first controller is taken for the system disk.
    """
    devices = list(devices)
    disks = sorted(_slot(one) for one in devices if one.get("_type") == "VirtualDisk")
    controllers = sorted(int(one["key"]) for one in devices if "scsiCtlrUnitNumber" in one)
    taken = {_slot(one) for one in devices if "controllerKey" in one and "unitNumber" in one}
    first = disks[0] if disks else (-1, -1)
    for key in controllers:
        for unit in range(UNITS):
            if unit != ITS_OWN and (key, unit) not in taken and (key, unit) > first:
                yield key, unit


class Slot(NamedTuple):
    """A free place: the controller's key, negative for one that has to be added first, its bus, and the unit."""

    controller: int
    bus: int
    unit: int

    @property
    def is_new(self) -> bool:
        """Whether the controller has to be added."""
        return self.controller < 0


def room(devices: Iterable[dict[str, Any]], count: int) -> list[Slot]:
    """Choose places for so many more disks; ResourceExhausted when the VM cannot have that many."""
    found = places(devices)
    if len(found) < count:
        message = f"the machine has room for {len(found)} more disks, not {count}; nothing was changed"
        raise CallError(Code.RESOURCE_EXHAUSTED, message)
    return found[:count]


def places(devices: Iterable[dict[str, Any]]) -> list[Slot]:
    """Return every free place: on paravirtual controllers first, then on others, then on those that can be added.

    Never before the first SCSI disk, which may be what the machine boots from, and not on a controller that is shared
    with other VMs.
    """
    devices = list(devices)
    buses = {int(one["key"]): int(one["busNumber"]) for one in devices if "sharedBus" in one}
    taken = {(buses.get(key), unit) for key, unit in map(_slot, devices)}
    disks = (_slot(one) for one in devices if one.get("_type") == "VirtualDisk")
    first = min(((buses[key], unit) for key, unit in disks if key in buses), default=(-1, -1))
    return [
        Slot(key, bus, unit)
        for key, bus, own in _controllers(devices, first[0])
        for unit in range(UNITS)
        if unit != own and (bus, unit) not in taken and (bus, unit) > first
    ]


def _controllers(devices: Iterable[dict[str, Any]], after: int) -> Iterator[tuple[int, int, int]]:
    """Yield key, bus and own unit of the SCSI controllers that disks can go to; new ones only behind a bus."""
    there = [one for one in devices if "sharedBus" in one]
    for one in sorted(there, key=lambda one: (one.get("_type") != _BEST, int(one["busNumber"]))):
        if one["sharedBus"] == "noSharing":
            yield int(one["key"]), int(one["busNumber"]), int(one.get("scsiCtlrUnitNumber", ITS_OWN))
    for bus in sorted(set(range(after + 1, CONTROLLERS)) - {int(one["busNumber"]) for one in there}):
        yield _NEW - bus, bus, ITS_OWN


def _slot(device: dict[str, Any]) -> tuple[int, int]:
    return int(device.get("controllerKey", 0)), int(device.get("unitNumber", 0))
