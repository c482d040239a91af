"""Disks that outlive their machines: put on a machine, and taken off it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import Volume
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.disks import Disk, not_born_with, refuse_snapshots
from vsphere_functions.vsphere.follow import change
from vsphere_functions.vsphere.identity import BORN
from vsphere_functions.vsphere.in_use import DISKS, InUse
from vsphere_functions.vsphere.machine import WHOLE, Machine, keyed, read_machines
from vsphere_functions.vsphere.named_disk import (
    DiskName,
    NamedDisk,
    admit,
    find_disk,
    refuse_missing,
)
from vsphere_functions.vsphere.reconfigure import additions, reconfigure_spec, removals
from vsphere_functions.vsphere.settle import at_work, settle, settle_machine
from vsphere_functions.vsphere.slots import room
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Stores
from vsphere_functions.vsphere.vcenter import VCenter

_ROW = tuple(dict.fromkeys((*WHOLE, *DISKS)))


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at everything, the machine as it shows in it, and a disk that is asked for with the devices it is on."""

    seen: InUse
    machine: Machine
    disks: tuple[tuple[NamedDisk, list[Disk]], ...]

    @classmethod
    def of(cls, vcenter: VCenter, stores: Stores, machine: Machine, names: Iterable[DiskName]) -> Self:
        """Look; Aborted when the machine has vanished meanwhile."""
        seen = InUse.look(vcenter, stores)
        row = seen.surroundings.vms.get(machine.ref)
        if row is None:
            raise _vanished(machine)
        now = Machine(machine.ref, {**machine.row, **row})
        disks = (find_disk(seen, row, name) for name in names)
        return cls(seen, now, tuple((disk, disk.on(seen, now)) for disk in disks))

    def missing(self) -> list[NamedDisk]:
        """Return the disks that the machine does not have yet; FailedPrecondition for one in another mode."""
        for disk, there in self.disks:
            _refuse_own(self.seen.surroundings.stores, self.machine, there)
            for odd in there:
                if odd.mode != disk.name.mode:
                    raise CallError(
                        Code.FAILED_PRECONDITION,
                        f"{disk.name} is attached to {self.machine.name} already, as {odd.mode} and not as "
                        f"{disk.name.mode}; detach it first",
                    )
        return [disk for disk, there in self.disks if not there]

    def told(self, *, attached: bool) -> tuple[Volume, ...]:
        """Describe the disks as they are now that they are attached, or not any more."""
        return tuple(self._volume(disk, there, attached=attached) for disk, there in self.disks)

    def _volume(self, disk: NamedDisk, there: list[Disk], *, attached: bool) -> Volume:
        others = self.seen.on(disk.uuids, disk.spots, besides=self.machine.ref)
        own = (self.machine.name,) if attached else ()
        return disk.described(self.seen, there, sorted({*others, *own}))


def attach(
    vcenter: VCenter, stores: Stores, machine: Machine, names: Sequence[DiskName], state: State
) -> Steps[tuple[Volume, ...]]:
    """Attach disks to a machine in one reconfigure, and see that they are there; those that it has are left alone.

    NotFound, FailedPrecondition or Unavailable for a disk that it cannot have, ResourceExhausted when it has no room;
    nothing is changed then.
    """
    _refuse_unready(machine)
    yield from settle(vcenter, state)
    sight = Sight.of(vcenter, stores, machine, names)
    missing = sight.missing()
    if missing:
        for disk in missing:
            admit(sight.seen, disk, machine.ref)
        yield from _add(vcenter, sight, missing, state)
        again = read_again(vcenter, machine)
        left = [disk for disk in missing if not disk.on(sight.seen, again)]
        if left:
            raise CallError(Code.ABORTED, f"{left[0].name} is not on {machine.name} after it was attached")
        yield Step("attach", str(_at(state, "attach", machine)), f"attached {_names(missing)}")
    return sight.told(attached=True)


def _add(vcenter: VCenter, sight: Sight, disks: Sequence[NamedDisk], state: State) -> Steps[None]:
    machine = sight.machine
    places = room(machine.row.get("config.hardware.device") or [], len(disks))
    wanted = [(str(disk.path), disk.name.mode) for disk in disks]
    spec = reconfigure_spec({}, deviceChange=additions(wanted, places))
    state, message = _at(state, "attach", machine), f"attaching {_names(disks)}"
    yield from change(vcenter, "attach", machine.ref, "ReconfigVM_Task", state, message, spec=spec)


def detach(vcenter: VCenter, stores: Stores, machine: Machine, name: DiskName, state: State) -> Steps[Volume]:
    """Take a disk off a machine, and see that it is off; its file stays. One that it does not have is fine.

    FailedPrecondition for a disk that the machine was born with, or that a snapshot holds.
    """
    yield from settle_machine(vcenter, machine, state, at_work(vcenter))
    sight = Sight.of(vcenter, stores, machine, [name])
    ((disk, there),) = sight.disks
    if not there:
        refuse_missing(sight.seen, disk)
        return sight.told(attached=False)[0]
    _refuse_own(stores, sight.machine, there)
    refuse_snapshots(sight.machine, there)
    state = _at(state, "detach", machine)
    spec = reconfigure_spec({}, deviceChange=removals(there))
    message = f"detaching {name}"
    yield from change(vcenter, "detach", machine.ref, "ReconfigVM_Task", state, message, spec=spec)
    if disk.on(sight.seen, read_again(vcenter, machine)):
        raise CallError(Code.FAILED_PRECONDITION, f"{name} is still on {machine.name} after it was detached")
    yield Step("detach", str(state), f"detached {name}")
    return sight.told(attached=False)[0]


def read_again(vcenter: VCenter, machine: Machine) -> Machine:
    """Read a machine anew, with where it lies; Aborted when it has vanished."""
    for again in read_machines(vcenter, [machine.ref], _ROW):
        return again
    raise _vanished(machine)


def _at(state: State, phase: str, machine: Machine) -> State:
    return state.at(phase, vm=machine.ref.id, uuid=machine.uuid)


def _names(disks: Iterable[NamedDisk]) -> str:
    return ", ".join(str(disk.name) for disk in disks)


def _vanished(machine: Machine) -> CallError:
    return CallError(Code.ABORTED, f"the VM {machine.name!r} has vanished meanwhile")


def _refuse_unready(machine: Machine) -> None:
    """Refuse a machine whose own disks could not be told from others, and one that is being deleted."""
    if not machine.row.get(keyed(BORN)):
        why = "is half built; finish it first (initialize_machine)"
    elif machine.detached:
        why = "is being deleted"
    else:
        return
    raise CallError(Code.FAILED_PRECONDITION, f"machine {machine.name!r} {why}; nothing was changed")


def _refuse_own(stores: Stores, machine: Machine, disks: Iterable[Disk]) -> None:
    """Refuse to handle a disk that belongs to the machine itself."""
    foreign = {disk.key for disk in not_born_with(machine, stores)}
    for disk in disks:
        if disk.key not in foreign:
            raise CallError(
                Code.FAILED_PRECONDITION,
                f"machine {machine.name!r} was born with the disk {disk.path}; nothing was changed",
            )
