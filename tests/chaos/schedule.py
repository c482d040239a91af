"""What is asked and what goes wrong, drawn from a seed and from nothing else: no clock, no answer, no environment."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from support.machines import SPEC, TAGS

PRODUCERS = 4
WORKERS = 3
KILLS_IN_500 = 36

WEIGHTS = {
    "create_machine": 22,
    "delete_machine": 17,
    "shut_down_machine": 6,
    "initialize_machine": 3,
    "get_machine_status": 12,
    "list_machines": 3,
    "validate_machine": 2,
    "create_volume": 14,
    "destroy_volume": 9,
    "get_volume": 6,
    "list_volumes": 3,
    "get_volume_ids": 1,
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
    functions = _drawn(dice, WEIGHTS, count)
    made = []
    for number, function in enumerate(functions):
        thing = f"{'data' if 'volume' in function else 'm'}-{dice.randrange(things):02}"
        made.append(
            Asked(
                number,
                dice.randrange(PRODUCERS),
                function,
                thing,
                _data(function, thing),
                waits=dice.random() < 0.25,
                twice=dice.random() < 0.04,
                mishap=_mishap(dice, function),
            )
        )
    return _with_pairs(dice, made)


def _with_pairs(dice: random.Random, made: list[Asked]) -> list[Asked]:
    """Let some requests be about the thing of the one before, sent right behind it: order shows there."""
    paired = made[:1]
    for before, one in pairwise(made):
        last, same = paired[-1], ("volume" in before.function) == ("volume" in one.function)
        if same and dice.random() < 0.4:
            data = _data(one.function, last.thing)
            paired.append(replace(one, producer=last.producer, waits=False, thing=last.thing, data=data))
        else:
            paired.append(one)
    return paired


def _mishap(dice: random.Random, function: str) -> Mishap | None:
    if dice.random() > 0.09 or function.startswith(("get_", "list_", "validate_")):
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
    return Blow(dice.randrange(1, max(requests, 2)), kind, target, round(dice.uniform(0.2, 4.0), 1), detail)


def _drawn(dice: random.Random, weights: dict[str, int], count: int) -> list[str]:
    return dice.choices(list(weights), list(weights.values()), k=count)


def _data(function: str, thing: str) -> dict[str, Any]:
    machine = {"machineName": thing, "providerSpec": {"tags": TAGS}}
    made = {"machineName": thing, "providerSpec": SPEC}
    special: dict[str, dict[str, Any]] = {
        "create_machine": made,
        "initialize_machine": made,
        "validate_machine": made,
        "shut_down_machine": machine | {"mode": "hard"},
        "list_machines": {"providerSpec": {"datacenter": "DC0", "folder": "demo/machines", "tags": TAGS}},
        "create_volume": {"id": thing, "capacityKB": 1 << 20},
        "list_volumes": {"store": "default"},
        "get_volume_ids": {
            "pvSpecList": [{"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": thing}}]
        },
    }
    return special.get(function, {"id": thing} if "volume" in function else machine)


__all__ = ["PRODUCERS", "WORKERS", "Asked", "Blow", "Mishap", "Schedule", "draw"]
