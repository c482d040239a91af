"""The deletion of orphans, one by one: each is looked at again, and what cannot be deleted holds up no other."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.orphan import Orphaned, OrphanMachine, OrphanVolume
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere import volumes_destroy
from vsphere_functions.vsphere.destroy import detached, remove
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.machine import read_machines
from vsphere_functions.vsphere.orphans import Found, machine_id, volume_id
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Stores
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import find_leaf
from vsphere_functions.vsphere.volumes_list import Shelves

_ITS_OWN = {Code.FAILED_PRECONDITION, Code.PERMISSION_DENIED}
"""Codes that say something of one orphan and nothing of the others."""


def refuse_many(doomed: Collection[Found], machines: int, *, known: bool) -> None:
    """Brake a sweep that may know too little: FailedPrecondition when no machine is known, or most would go.

    Leftovers of volumes hold nothing, so they do not count.
    """
    going = sum(isinstance(one.id, OrphanMachine) for one in doomed)
    if going and not known:
        raise _refused(f"no machine is known, so all {machines} of the owner would be orphans")
    if going * 2 > machines:
        raise _refused(f"{going} of the {machines} machines of the owner would go, more than half")


def _refused(why: str) -> CallError:
    return CallError(
        Code.FAILED_PRECONDITION, f"{why}; nothing was deleted (delete_machine deletes one that is named)"
    )


@dataclass(slots=True)
class Sweep:
    """One sweep; `state` tells what was detached so far, also by earlier tries; `gone` are the ids of what is gone."""

    vcenter: VCenter
    stores: Stores
    owner: str
    state: State
    gone: set[Orphaned]

    def run(self, doomed: Iterable[Found]) -> Steps[list[Found]]:
        """Delete orphans, and return those that could not be, each with the reason."""
        left = []
        for one in doomed:
            try:
                yield from (
                    self._machine(one.id) if isinstance(one.id, OrphanMachine) else self._volume(one.id)
                )
                self.gone.add(one.id)
            except CallError as error:
                if error.code not in _ITS_OWN:
                    raise
                left.append(replace(one, reason=f"{one.reason}; not deleted: {error.message}"))
        return left

    def _machine(self, orphan: OrphanMachine) -> Steps[None]:
        for machine in read_machines(self.vcenter, [Ref("VirtualMachine", orphan.vm)]):
            mark = machine.own_mark
            if mark is None or mark.owner != self.owner or machine_id(machine) != orphan:
                raise _changed()
            if not machine.connected:
                where = machine.row.get("runtime.connectionState")
                raise CallError(Code.FAILED_PRECONDITION, f"the VM is {where}")
            own = State.of(None, self.vcenter.session.instance_uuid, mark.instance_uuid)
            own = own.at("begin", vm=machine.ref.id, uuid=machine.uuid)
            before = detached(self.state.detached)
            steps = remove(self.vcenter, self.stores, machine, own)
            try:
                while True:
                    step = next(steps)
                    self._remember(before, step.state, own)
                    yield replace(step, state=str(self.state.at(step.phase)))
            except StopIteration:
                return

    def _remember(self, before: Sequence[dict[str, str]], told: str, own: State) -> None:
        """Keep what a machine's steps say that was detached from it, beside what was from others."""
        now = State.of(told, own.vcenter, own.instance_uuid)
        found = [*before, *(one for one in detached(now.detached) if one not in before)]
        self.state = self.state.having_detached(json.dumps(found, separators=(",", ":")) if found else None)

    def _volume(self, orphan: OrphanVolume) -> Steps[None]:
        seen = InUse.look(self.vcenter, self.stores)
        leaf = find_leaf(seen.surroundings.store(orphan.store), orphan.id)
        if leaf is None:
            return
        if volume_id(leaf) != orphan and not leaf.bare:
            raise _changed()
        yield from volumes_destroy.destroy(self.vcenter, self.stores, leaf, seen, self.state)


def _changed() -> CallError:
    return CallError(Code.FAILED_PRECONDITION, "it has changed since it was found")


def is_gone(vcenter: VCenter, orphan: Orphaned, shelves: Shelves) -> bool:
    """Say whether what an id names is not there any more; of a store that is out of reach nobody knows."""
    if isinstance(orphan, OrphanVolume):
        return orphan.store not in shelves.unreachable and (orphan.store, orphan.id) not in shelves.leaves
    vm = Ref("VirtualMachine", orphan.vm)
    return vm not in vcenter.read([vm], {"VirtualMachine": ("name",)})
