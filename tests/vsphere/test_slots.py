"""Where new disks go."""

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.slots import CONTROLLERS, Slot, room, slots


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


def _scsi(bus: int, kind: str = "ParaVirtualSCSIController", shared: str = "noSharing") -> dict[str, Any]:
    """A controller whose key is not what one would guess from its bus."""
    return {
        "_type": kind,
        "key": 1000 + 7 * bus,
        "busNumber": bus,
        "sharedBus": shared,
        "scsiCtlrUnitNumber": 7,
    }


def test_disks_go_behind_the_first_and_then_to_new_controllers() -> None:
    devices = [_scsi(0), _disk(1000, 2), _disk(1000, 4)]
    found = room(devices, 13)
    assert [one.unit for one in found[:11]] == [3, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15]
    assert found[:11] == [Slot(1000, 0, one.unit) for one in found[:11]]
    assert [(one.bus, one.unit, one.is_new) for one in found[11:]] == [(1, 0, True), (1, 1, True)]


def test_paravirtual_controllers_come_first_and_shared_ones_not_at_all() -> None:
    devices = [
        _scsi(0, "VirtualLsiLogicSASController"),
        _scsi(1, shared="physicalSharing"),
        _scsi(3),
        _disk(1000, 0),
    ]
    found = room(devices, 44)
    assert [one.bus for one in found] == [3] * 15 + [0] * 14 + [2] * 15
    with pytest.raises(CallError) as full:
        room(devices, 45)
    assert full.value.code is Code.RESOURCE_EXHAUSTED
    assert "room for 44 more disks, not 45" in full.value.message


def test_a_machine_that_boots_from_elsewhere_gets_its_first_scsi_controller() -> None:
    devices = [{"_type": "VirtualAHCIController", "key": 15000, "busNumber": 0}, _disk(15000, 0)]
    assert room(devices, 1) == [Slot(-100, 0, 0)]


@given(
    buses=st.sets(st.integers(0, CONTROLLERS - 1)),
    disks=st.sets(st.tuples(st.integers(0, CONTROLLERS - 1), st.sampled_from([*range(7), *range(8, 16)]))),
    count=st.integers(1, 60),
)
def test_v15_no_slot_is_given_twice(buses: set[int], disks: set[tuple[int, int]], count: int) -> None:
    disks = {(bus, unit) for bus, unit in disks if bus in buses}
    devices = [*map(_scsi, buses), *(_disk(1000 + 7 * bus, unit) for bus, unit in disks)]
    slots_of_all = {(bus, unit) for bus in range(CONTROLLERS) for unit in range(16) if unit != 7}
    first = min(disks, default=(-1, -1))
    left = {(bus, unit) for bus, unit in slots_of_all - disks if (bus, unit) > first}
    if count > len(left):
        with pytest.raises(CallError):
            room(devices, count)
        return
    found = [(one.bus, one.unit) for one in room(devices, count)]
    assert len(found) == len(set(found)) == count
    assert set(found) <= left
