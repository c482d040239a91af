"""Where new disks go."""

from itertools import islice
from typing import Any

from vsphere_functions.vsphere.slots import slots


def _controller(key: int) -> dict[str, Any]:
    return {"_type": "ParaVirtualSCSIController", "key": key, "scsiCtlrUnitNumber": 7}


def _disk(controller: int, unit: int) -> dict[str, Any]:
    return {"_type": "VirtualDisk", "key": 2000 + unit, "controllerKey": controller, "unitNumber": unit}


def test_free_slots_go_on_with_the_next_controller() -> None:
    free = list(slots([_controller(1001), _controller(1000), _disk(1000, 0), _disk(1000, 14)]))
    assert free == [
        *[(1000, unit) for unit in range(1, 16) if unit not in (7, 14)],
        *[(1001, unit) for unit in range(16) if unit != 7],
    ]


def test_no_slot_comes_before_the_system_disk() -> None:
    assert list(islice(slots([_controller(1000), _disk(1000, 3)]), 2)) == [(1000, 4), (1000, 5)]
    assert next(slots([_controller(1000), _controller(1001), _disk(1001, 0)])) == (1001, 1)


def test_a_disk_needs_a_scsi_controller() -> None:
    assert list(slots([{"_type": "VirtualIDEController", "key": 200}])) == []
    assert next(slots([_controller(1000)])) == (1000, 0)
