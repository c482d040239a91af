"""A small model of Gardener's machine controller: what it calls in which state, and what each code makes it do.

Facts about the controller: status decides between adopting, creating and initialising; a state is kept for codes that
are retried soon and for ResourceExhausted, and wiped for others unless the error carries one; a list entry without
a machine of that name and providerID is deleted as an orphan.
"""

from dataclasses import dataclass, field
from typing import Any

from support.machines import create, delete, initialize, listing, status
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.context import Context

KEEPS_STATE = {
    Code.UNKNOWN,
    Code.DEADLINE_EXCEEDED,
    Code.ABORTED,
    Code.UNAVAILABLE,
    Code.RESOURCE_EXHAUSTED,
}
ABSENT = {Code.NOT_FOUND, Code.UNIMPLEMENTED}


@dataclass
class Machine:
    """The controller's object."""

    name: str
    provider_id: str | None = None
    state: str | None = None
    running: bool = False
    errors: list[Code] = field(default_factory=list)


def create_flow(ctx: Context, machine: Machine) -> None:
    """One reconciliation of a machine that shall run."""
    try:
        _create(ctx, machine)
    except CallError as error:
        machine.errors.append(error.code)
        kept = machine.state if error.code in KEEPS_STATE else None
        machine.state = error.last_known_state or kept


def _create(ctx: Context, machine: Machine) -> None:
    try:
        found: Any = status(ctx, machine.name)
    except CallError as error:
        if error.code in ABSENT and machine.provider_id is None:
            found = create(ctx, machine.name, state=machine.state)
        elif error.code is Code.UNINITIALIZED:
            _whole(error)
            found = initialize(ctx, machine.name, state=machine.state)
        else:
            raise
    assert found.node_name == machine.name
    machine.provider_id, machine.state, machine.running = str(found.provider_id), None, True


def _whole(error: CallError) -> None:
    """Demand what the controller reads from the response beside Uninitialized."""
    assert error.provider_id
    assert error.node_name


def delete_flow(ctx: Context, machine: Machine) -> bool:
    """One reconciliation of a machine that shall go; whether it has gone."""
    try:
        status(ctx, machine.name)
    except CallError as error:
        if error.code not in ABSENT | {Code.UNINITIALIZED}:
            machine.errors.append(error.code)
            return False
    try:
        gone = delete(ctx, machine.name, providerID=machine.provider_id, lastKnownState=machine.state)
    except CallError as error:
        machine.errors.append(error.code)
        machine.state = error.last_known_state
        return error.code is Code.NOT_FOUND
    machine.state = gone.last_known_state
    return True


def orphan_run(ctx: Context, machines: dict[str, Machine]) -> list[str]:
    """Delete what the list names and no machine stands for; their names. An error skips the run."""
    try:
        listed = listing(ctx).machine_list
    except CallError:
        return []
    orphans = []
    for provider_id, name in listed.items():
        machine = machines.get(name)
        if machine is None or (machine.provider_id != provider_id and machine.running):
            orphans.append(name)
            delete_flow(ctx, Machine(name, provider_id))
    return orphans
