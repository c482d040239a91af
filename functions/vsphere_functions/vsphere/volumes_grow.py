"""The growth of a volume: the disk first, then what is written down, so that the next try finishes what one began."""

from contextlib import suppress
from dataclasses import dataclass

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere import claims_file, metadata
from vsphere_functions.vsphere.disks import Disk as DiskOnVM
from vsphere_functions.vsphere.disks import disks_of
from vsphere_functions.vsphere.files import Disk
from vsphere_functions.vsphere.follow import change
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.machine import IDENTITY, Machine, read_machines
from vsphere_functions.vsphere.metadata import Metadata
from vsphere_functions.vsphere.reconfigure import grown_disk, reconfigure_spec
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import Leaf
from vsphere_functions.vsphere.volumes_create import temporary_in
from vsphere_functions.vsphere.volumes_destroy import uuids_of
from vsphere_functions.vsphere.volumes_room import refuse_without_room
from vsphere_functions.vsphere.volumes_whole import OnMachine, devices, in_use, refuse_unread

_HOLDER = (*IDENTITY, "config.changeVersion", "config.hardware.device", "snapshot")


@dataclass(frozen=True, slots=True)
class Growing:
    """A whole volume that is to have `wanted_kb` KiB."""

    vcenter: VCenter
    seen: InUse
    leaf: Leaf
    told: Metadata
    wanted_kb: int
    state: State

    def run(self) -> Steps[Metadata]:
        """Grow the disk, wherever it is attached, and write its size down; what has that size already is left alone.

        InvalidArgument for less than it has; FailedPrecondition for a disk that a snapshot, a template, several VMs
        or a VM that is no machine of ours has; ResourceExhausted over the store's limits.
        """
        if self.told.capacity_kb is None:
            message = (
                f"volume {self.leaf.id!r} is one of VIC's, which keep no size; copy it and grow the copy"
            )
            raise CallError(Code.FAILED_PRECONDITION, message)
        uuids = [self.told.uuid]
        on = devices(self.seen, self.leaf, uuids)
        if not on:  # else a machine may hold it locked, and what is asked of the disk itself waits for that
            uuids = uuids_of(self.leaf, self.told)
            on = devices(self.seen, self.leaf, uuids)
        written = self.told.capacity_kb
        real = self._real_size(on) or written
        if self.wanted_kb < max(real, written):
            reason = f"a volume only grows, and this one has {max(real, written)} KiB"
            raise problems((Detail(reason, "capacityKB"),))
        if real < self.wanted_kb:
            wanted = Disk(self.wanted_kb, self.told.format)
            refuse_without_room(self.leaf.store, self.leaf.id, wanted, has_kb=real)
            yield from self._grow(on, uuids)
            yield self._step("grow", f"the disk has {self.wanted_kb} KiB")
        told = self.told.grown(self.wanted_kb)
        if told != self.told:
            yield from self._write(told)
        return told

    def _step(self, phase: str, message: str) -> Step:
        return Step(phase, str(self.state.at(phase)), message)

    def _real_size(self, on: list[OnMachine]) -> int | None:
        """Return what the disk has, which is more than is written down when an earlier try was interrupted."""
        shown = max((one.disk.capacity_kb for one in on), default=0)
        return shown or self.leaf.store.files.capacity_kb(self.leaf.disk)

    def _grow(self, on: list[OnMachine], uuids: list[str]) -> Steps[None]:
        leaf, zeroed = self.leaf, self.told.format == "eagerZeroedThick"
        held = self.seen.holders(uuids, leaf.spots)
        if held:
            machine, disk = self._holder(on, held)
            spec = reconfigure_spec(
                {},
                changeVersion=machine.row.get("config.changeVersion"),
                deviceChange=[grown_disk(disk, self.wanted_kb, zeroed=zeroed)],
            )
            message = f"growing {leaf.disk} on {machine.name}"
            state = self.state.at("grow", vm=machine.ref.id)
            yield from change(self.vcenter, "grow", machine.ref, "ReconfigVM_Task", state, message, spec=spec)
        else:
            refuse_unread(leaf, self.seen)
            yield from leaf.store.files.grow_disk(leaf.disk, self.wanted_kb, self.state, zeroed=zeroed)

    def _holder(self, on: list[OnMachine], held: list[str]) -> tuple[Machine, DiskOnVM]:
        """Return the one machine of ours that has the disk, as it is now, and the disk on it."""
        if len(on) != 1 or len(held) != 1:
            raise in_use(self.leaf, held)
        (one,) = on
        machine = next(iter(read_machines(self.vcenter, [one.vm], _HOLDER)), None)
        disks = disks_of(machine.row.get("config.hardware.device")) if machine else []
        now = next((disk for disk in disks if (disk.key, disk.path) == (one.disk.key, one.disk.path)), None)
        if machine is None or now is None:
            raise CallError(Code.ABORTED, f"volume {self.leaf.id!r} has just left {held[0]}")
        if machine.own_mark is None:
            raise in_use(self.leaf, held, "which is no machine of ours; grow it there, or detach it")
        if machine.row.get("snapshot") or one.has_parent:
            raise in_use(self.leaf, held, "which has snapshots")
        return machine, now

    def _write(self, told: Metadata) -> Steps[None]:
        """Put the metadata in the place of the old; there is always one or the other."""
        files, folder = self.leaf.store.files, self.leaf.path
        temporary = temporary_in(folder)
        files.write(temporary, told.render())
        if self.leaf.has_claim:
            # With it, a volume whose metadata is lost in the move passes for one that was never made.
            yield from files.delete(folder / claims_file.FILE, self.state)
        try:
            yield from files.move(temporary, folder / metadata.FILE, self.state, over=True)
        except CallError:
            with suppress(CallError):
                yield from files.delete(temporary, self.state)
            raise
        yield self._step("metadata", f"volume {self.leaf.id} has {told.capacity_kb} KiB")
        with suppress(CallError):  # of tries that were interrupted here
            for name in self.leaf.temporaries:
                yield from files.delete(folder / name, self.state)
