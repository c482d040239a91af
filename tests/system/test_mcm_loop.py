"""Gardener's controller drives the functions, with faults all the way, and ends with what it asked for.

`MCM_MACHINES` says how many.
"""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from support.machines import at, vms
from support.mcm import Machine, create_flow, delete_flow, orphan_run
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter

MACHINES = int(os.environ.get("MCM_MACHINES", "200"))
ROUNDS = 40
FAULTS = [
    ("CloneVM_Task", "task", "NoDiskSpace"),
    ("CloneVM_Task", "task", "InsufficientResourcesFault"),
    ("CloneVM_Task", "call", "HostCommunication"),
    ("ReconfigVM_Task", "task", "TaskInProgress"),
    ("ReconfigVM_Task", "call", "SystemError"),
    ("PowerOnVM_Task", "task", "HostNotConnected"),
    ("PowerOnVM_Task", "task", "InvalidState"),
    ("PowerOffVM_Task", "task", "TaskInProgress"),
    ("Destroy_Task", "task", "ResourceInUse"),
    ("SetField", "call", "ConcurrentAccess"),
    ("FindAllByUuid", "call", "NotAuthenticated"),
    ("RetrievePropertiesEx", "call", "NoPermission"),
]


def storm(vcenter: SimulatedVCenter, chance: random.Random, count: int) -> None:
    """Arm a few faults that hit whoever comes by."""
    for method, scope, fault in chance.sample(FAULTS, 4):
        vcenter.control.add_fault(
            method,
            fault,
            scope="task" if scope == "task" else "call",
            count=chance.randint(1, max(count // 8, 1)),
            skip=chance.randint(0, count),
        )


def until_settled(
    vcenter: SimulatedVCenter, ctx: Context, machines: list[Machine], doomed: list[Machine]
) -> None:
    """Reconcile all of them, round by round, until each is as it should be."""
    chance = random.Random(7)
    with ThreadPoolExecutor(8) as pool:
        for number in range(ROUNDS):
            waiting = [machine for machine in machines if not machine.running]
            if not waiting and not doomed:
                return
            if number < ROUNDS // 2:
                storm(vcenter, chance, len(waiting) + len(doomed))
            else:
                vcenter.control.clear_faults()
            list(pool.map(partial(create_flow, ctx), waiting))
            gone = list(pool.map(partial(delete_flow, ctx), doomed))
            doomed[:] = [machine for machine, done in zip(doomed, gone, strict=True) if not done]
    vcenter.control.clear_faults()
    assert not [machine for machine in machines if not machine.running]
    assert not doomed


@pytest.mark.timeout(1200)
def test_the_controller_gets_what_it_asks_for(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    machines = {f"m-{number:03}": Machine(f"m-{number:03}") for number in range(MACHINES)}
    with at(vcenter) as ctx:
        until_settled(vcenter, ctx, list(machines.values()), [])
        vcenter.control.clear_faults()
        assert len(vms(vcenter)) == len(before) + MACHINES
        assert orphan_run(ctx, machines) == []
        assert sum(len(machine.errors) for machine in machines.values()) > MACHINES // 8

        names = list(machines)
        doomed = [machines.pop(name) for name in names[: MACHINES // 2]]
        forgotten = [machines.pop(name).name for name in names[MACHINES // 2 : MACHINES // 2 + 3]]
        until_settled(vcenter, ctx, list(machines.values()), doomed)
        vcenter.control.clear_faults()
        assert sorted(orphan_run(ctx, machines)) == forgotten
        assert orphan_run(ctx, machines) == []
    left = {path.rpartition("/")[2] for path in set(vms(vcenter)) - set(before)}
    assert left == machines.keys()
