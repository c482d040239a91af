"""The copy of a volume: a create whose disk is copied beside its place and then moved there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere import claims_file
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.follow import awaited, follow
from vsphere_functions.vsphere.in_use import InUse
from vsphere_functions.vsphere.names import unescape
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import Leaf, find_leaf
from vsphere_functions.vsphere.volumes_create import Making
from vsphere_functions.vsphere.volumes_whole import devices, in_use, refuse_unread


@dataclass(frozen=True, slots=True)
class Copying(Making):
    """One copy at work: what it wants is a volume like its source, which stays as it is."""

    source: Leaf

    def _make_disk(self, leaf: Leaf, claim: Claim) -> Steps[None]:
        """Copy beside the place, look at the source once more, and give the disk its name.

        What has that name is whole.
        """
        there = leaf.store.files
        try:
            yield from self._copy(leaf, claim)
            yield self.step("copy", f"copied {self.source.disk}")
            seen = InUse.look(self.vcenter, self.stores)
            refuse_written(self.vcenter, seen, self.source, [self.want.origin])
            if there.disk_uuid(leaf.copying) == self.want.origin:
                there.new_disk_uuid(leaf.copying)
            yield from there.move_disk(leaf.copying, leaf.disk, self.state)
        except CallError as error:
            raise self._outrun(error) from error.__cause__

    def _copy(self, leaf: Leaf, claim: Claim) -> Steps[None]:
        """Copy the disk, or wait for the copy of an earlier try: a large one takes longer than a try may.

        One that ended unseen is thrown away: nobody knows whether it is whole.
        """
        there = leaf.store.files
        instance = self.vcenter.session.instance_uuid
        if known := claim.task_at(instance):
            earlier, state = Ref("Task", known), self.state.at("copy", task=known)
            message = "waiting for the copy that an earlier try began"
            if (yield from awaited(self.vcenter, "copy", earlier, state, message)).state == "success":
                return
        now = find_leaf(leaf.store, leaf.id)
        if now is not None and now.has_copying:
            yield from there.delete_disk(leaf.copying, self.state)
        task = self.source.store.files.copy_disk(self.source.disk, there, leaf.copying)
        there.write(leaf.path / claims_file.FILE, replace(claim, task=task.id, vcenter=instance).render())
        yield from follow(self.vcenter, "copy", task, self.state, f"copying {self.source.disk}")

    def _refuse_found(self, leaf: Leaf) -> None:
        """Refuse to take what lay there for a copy of something else."""
        raise CallError(Code.ALREADY_EXISTS, f"{leaf.disk} lies there already; it was left alone")


def refuse_written(vcenter: VCenter, seen: InUse, leaf: Leaf, uuids: Sequence[str]) -> None:
    """Refuse while a VM may write to the disk: a copy would be of no moment, or of one before a snapshot.

    FailedPrecondition, naming those that are not off; Unavailable while one cannot be read.
    """
    on = devices(seen, leaf, uuids)
    chained = [unescape(one.row.get("name", "")) for one in on if one.has_parent]
    if chained:
        raise in_use(leaf, sorted(chained), "which has snapshots")
    rows = vcenter.read([one.vm for one in on], {"VirtualMachine": ("name", "runtime.powerState")})
    running = [
        f"{unescape(row.get('name', ''))} ({row.get('runtime.powerState')})"
        for row in rows.values()
        if row.get("runtime.powerState") != "poweredOff"
    ]
    if running:
        raise in_use(leaf, sorted(running))
    refuse_unread(leaf, seen)
