"""Free places for disks on a VM's SCSI controllers."""

from collections.abc import Iterable, Iterator
from typing import Any

UNITS = 16
"""Unit numbers of a SCSI controller; one of them is its own."""
ITS_OWN = 7


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


def _slot(device: dict[str, Any]) -> tuple[int, int]:
    return int(device.get("controllerKey", 0)), int(device.get("unitNumber", 0))
