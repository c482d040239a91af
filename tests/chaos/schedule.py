"""What is asked and what goes wrong, drawn from a seed and from nothing else: no clock, no answer, no environment."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

from support.machines import SPEC, TAGS

PRODUCERS = 4
WORKERS = 3
KILLS_IN_500 = 36
SIZE = 1 << 20
"""KiB of a volume."""

WEIGHTS = {
    "create_machine": 24,
    "delete_machine": 12,
    "shut_down_machine": 6,
    "initialize_machine": 3,
    "get_machine_status": 12,
    "list_machines": 3,
    "validate_machine": 2,
    "create_volume": 16,
    "destroy_volume": 6,
    "get_volume": 6,
    "list_volumes": 3,
    "get_volume_ids": 1,
    "attach_volume": 7,
    "detach_volume": 4,
    "resize_volume": 3,
    "copy_volume": 3,
    "cancel_request": 2,
}
"""How often each function is asked for."""

KILLS = {"kill worker": 5, "term worker": 3, "kill node": 2, "kill leader": 3}
HARM = {
    "stop worker": 4,
    "stop node": 1,
    "cut worker": 2,
    "stall worker": 2,
    "slow worker": 1,
    "cut producer": 1,
    "cut vcenter": 2,
    "stall vcenter": 1,
    "refuse vcenter": 1,
    "drop sessions": 2,
    "drop reply": 4,
    "http status": 1,
    "fault": 7,
}
"""How often what befalls the cluster; kills come on top, as many as are asked for."""

UNMADE_BY = {"create_machine": "delete_machine", "create_volume": "destroy_volume"}
REPLIES = (
    *("CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task", "PowerOffVM_Task", "Destroy_Task"),
    *("CreateVirtualDisk_Task", "MoveVirtualDisk_Task", "MoveDatastoreFile_Task", "DeleteDatastoreFile_Task"),
    *("MakeDirectory", "Login"),
)
FAULTS = (
    *(("CloneVM_Task", "task", "NoDiskSpace"), ("CloneVM_Task", "call", "NoPermission")),
    *(("CloneVM_Task", "task", "HostNotConnected"), ("CloneVM_Task", "call", "SystemError")),
    *(("ReconfigVM_Task", "task", "HostNotConnected"), ("ReconfigVM_Task", "task", "TaskInProgress")),
    *(
        ("PowerOnVM_Task", "task", "InsufficientResourcesFault"),
        ("PowerOffVM_Task", "task", "HostCommunication"),
    ),
    *(("Destroy_Task", "task", "ResourceInUse"), ("Destroy_Task", "call", "SystemError")),
    *(("FindAllByUuid", "call", "NotAuthenticated"), ("RetrievePropertiesEx", "call", "SystemError")),
    *(("CreateVirtualDisk_Task", "task", "NoDiskSpace"), ("CreateVirtualDisk_Task", "call", "SystemError")),
    *(
        ("MoveVirtualDisk_Task", "task", "FileLocked"),
        ("DeleteVirtualDisk_Task", "task", "HostCommunication"),
    ),
    *(("MoveDatastoreFile_Task", "task", "HostCommunication"), ("MakeDirectory", "call", "SystemError")),
)
POINTS = {"change": 5, "changed": 3, "clone": 1, "stored": 3, "published": 3}
"""Where a worker is struck in the middle of a request; see `chaos.worker`."""


@dataclass(frozen=True, slots=True)
class Mishap:
    """What befalls the worker that is at the `nth` time at a point of a request: `kill` or `stop`."""

    point: str
    action: str
    nth: int = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; `waits`: its producer awaits all earlier answers first. `twice`: it is sent once more."""

    number: int
    producer: int
    function: str
    thing: str
    data: dict[str, Any] = field(hash=False)
    waits: bool
    twice: bool
    mishap: Mishap | None = None

    @property
    def id(self) -> str:
        """The event's id."""
        return f"chaos-{self.number}"


@dataclass(frozen=True, slots=True)
class Blow:
    """What happens to the cluster once `after` requests are stored; it lasts `seconds`."""

    after: int
    kind: str
    target: int
    seconds: float
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """A whole run."""

    seed: int
    requests: tuple[Asked, ...]
    blows: tuple[Blow, ...]

    @property
    def digest(self) -> str:
        """Tell schedules apart at a glance."""
        return hashlib.sha256(repr((self.requests, self.blows)).encode()).hexdigest()[:12]


def draw(seed: int, requests: int, kills: int | None = None) -> Schedule:
    """Draw a run: as many requests, and as many kills from outside (a proportion of the requests when not given)."""
    dice = random.Random(seed)
    asked = tuple(_requests(dice, requests))
    count = -(-requests * KILLS_IN_500 // 500) if kills is None else kills
    blows = [_blow(dice, kind, requests) for kind in _drawn(dice, KILLS, count)]
    blows += [_blow(dice, kind, requests) for kind in _drawn(dice, HARM, 2 * count)]
    return Schedule(seed, asked, tuple(sorted(blows, key=lambda one: one.after)))


def _requests(dice: random.Random, count: int) -> list[Asked]:
    things = max(count // 14, 2)
    made: list[Asked] = []
    for number, drawn in enumerate(_drawn(dice, WEIGHTS, count)):
        last = made[-1] if made else None
        duel = last is not None and _is_duel(last)
        function = UNMADE_BY[last.function] if last and duel else drawn
        producer, waits = dice.randrange(PRODUCERS), dice.random() < 0.08
        thing = f"{'data' if _is_of_volumes(function) else 'm'}-{dice.randrange(things):02}"
        if last and (duel or dice.random() < 0.4):  # about the same, right behind it: order shows there
            producer, waits = last.producer, False
            thing = last.thing if _is_of_volumes(function) == _is_of_volumes(last.function) else thing
        made.append(
            Asked(
                number,
                producer,
                function,
                thing,
                _data(function, thing, other=dice.randrange(things), earlier=_earlier(dice, made)),
                waits=waits,
                twice=dice.random() < 0.04,
                mishap=None if duel else _mishap(dice, function),
            )
        )
    return made


def _is_duel(one: Asked) -> bool:
    """Say whether a create's worker is stopped before a change: then what unmakes it follows, and it wakes too late."""
    stopped = one.mishap and (one.mishap.point, one.mishap.action) == ("change", "stop")
    return bool(stopped) and one.function in UNMADE_BY


def _is_of_volumes(function: str) -> bool:
    return "volume" in function and function not in {"attach_volume", "detach_volume"}


def _earlier(dice: random.Random, made: list[Asked]) -> tuple[str, str]:
    """Name the source and id of one of the last requests, to be canceled."""
    one = dice.choice(made[-4:]) if made else None
    return (source_of(one.producer), one.id) if one else ("/nobody", "nothing")


def _mishap(dice: random.Random, function: str) -> Mishap | None:
    if dice.random() > (0.16 if function in UNMADE_BY else 0.08) or function.startswith(
        ("get_", "list_", "validate_")
    ):
        return None
    point = _drawn(dice, POINTS, 1)[0]
    if point == "clone":
        return Mishap(point, "stop")
    return Mishap(
        point, dice.choice(("kill", "stop")), dice.randint(1, 3) if point.startswith("change") else 1
    )


def _blow(dice: random.Random, kind: str, requests: int) -> Blow:
    detail: tuple[str, ...] = ()
    match kind:
        case "drop reply":
            detail = (dice.choice(REPLIES),)
        case "fault":
            detail = dice.choice(FAULTS)
        case "kill leader":
            detail = (
                dice.choice(
                    ("VSPHERE_REQUESTS", "VSPHERE_RESULTS", "KV_vsphere_operations", "KV_vsphere_leases")
                ),
            )
    target = dice.randrange(PRODUCERS if "producer" in kind else WORKERS)
    return Blow(dice.randrange(1, max(requests, 2)), kind, target, round(dice.uniform(0.2, 2.5), 1), detail)


def _drawn(dice: random.Random, weights: dict[str, int], count: int) -> list[str]:
    return dice.choices(list(weights), list(weights.values()), k=count)


def _data(function: str, thing: str, *, other: int, earlier: tuple[str, str]) -> dict[str, Any]:
    machine = {"machineName": thing, "providerSpec": {"tags": TAGS}}
    made = {"machineName": thing, "providerSpec": SPEC}
    volume = f"data-{other:02}"
    special: dict[str, dict[str, Any]] = {
        "create_machine": made,
        "initialize_machine": made,
        "validate_machine": made,
        "shut_down_machine": machine | {"mode": "hard"},
        "list_machines": {"providerSpec": {"datacenter": "DC0", "folder": "demo/machines", "tags": TAGS}},
        "create_volume": {"id": thing, "capacityKB": SIZE},
        "resize_volume": {"id": thing, "capacityKB": 2 * SIZE},
        "copy_volume": {"id": volume if volume != thing else "data-none", "toId": thing},
        "attach_volume": machine | {"id": volume},
        "detach_volume": machine | {"id": volume},
        "list_volumes": {"store": "default"},
        "get_volume_ids": {
            "pvSpecList": [{"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": thing}}]
        },
        "cancel_request": {"source": earlier[0], "id": earlier[1]},
    }
    return special.get(function, {"id": thing} if "volume" in function else machine)


def source_of(producer: int) -> str:
    """Name a producer."""
    return f"/producers/chaos-{producer}"


__all__ = ["PRODUCERS", "WORKERS", "Asked", "Blow", "Mishap", "Schedule", "draw", "source_of"]
