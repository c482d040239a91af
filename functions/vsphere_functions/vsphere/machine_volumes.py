"""The volumes of a machine's spec: looked for before anything is cloned, attached before the machine first runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.attach import Sight, attach, read_again
from vsphere_functions.vsphere.disks import Disk
from vsphere_functions.vsphere.in_use import InUse, see_all
from vsphere_functions.vsphere.machine import Machine, named_in_errors
from vsphere_functions.vsphere.named_disk import DiskName, NamedDisk, admit, find_disk
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted

_FIELD = "providerSpec.volumes"


@dataclass(frozen=True, slots=True)
class VolumesFound:
    """What became of a spec's volumes: their disks' uuids, in the spec's order, when nothing is in the way.

    `wrong` is what the request would have to say otherwise; `refused` is what would have to change elsewhere.
    """

    uuids: list[str] = field(default_factory=list)
    wrong: list[Detail] = field(default_factory=list)
    refused: list[CallError] = field(default_factory=list)

    @property
    def all_wrong(self) -> list[Detail]:
        """Everything that a create would be refused for."""
        return [*self.wrong, *(Detail(one.message, _FIELD) for one in self.refused)]


def look_for_volumes(vcenter: VCenter, want: Wanted, found: Resolved) -> VolumesFound:
    """Look for a spec's volumes where its machine is to be made, all of them whatever is wrong with one."""
    told = VolumesFound()
    if not want.spec.volumes or found.datacenter is None:
        return told
    see_all(vcenter)
    seen, disks = InUse.look(vcenter, want.stores), list[NamedDisk]()
    for at, volume in enumerate(want.spec.volumes):
        where = f"{_FIELD}.{at}."
        try:
            disk = find_disk(seen, {"parent": found.datacenter}, DiskName.of(volume, vcenter.label, where))
            told.wrong.extend(_misplaced(disk, disks, found))
            disks.append(disk)
            told.uuids.append(admit(seen, disk))
        except CallError as error:
            if error.code in {Code.INVALID_ARGUMENT, Code.NOT_FOUND}:
                told.wrong.extend(_details(error, where))
            else:
                told.refused.append(error)
    return told


def _misplaced(disk: NamedDisk, others: list[NamedDisk], found: Resolved) -> Iterator[Detail]:
    """Refuse a disk that comes twice, and one that the machine's hosts do not see."""
    if any(set(disk.spots) & set(other.spots) for other in others):
        yield Detail("is given twice", disk.name.field)
    attached = found.atlas.rows[found.compute].get("datastore") or [] if found.compute else [disk.datastore]
    if disk.datastore not in attached:
        where = found.atlas.name(found.compute) if found.compute else ""
        yield Detail(f'its datastore "{disk.path.datastore}" is not attached to {where}', disk.name.field)


def _details(error: CallError, where: str) -> Iterator[Detail]:
    """Say in the spec's terms what is wrong with one of its volumes."""
    for one in error.details:
        named = one.field or "id"
        yield Detail(one.reason, named if named.startswith(where) else where + named, one.candidates)


def mounting(vcenter: VCenter, machine: Machine, want: Wanted) -> Wanted:
    """Return what is wanted, its guest told of its volumes, for a machine that stands; one in service has been told.

    A volume that it has already is its own; any other has to be free.
    """
    if machine.ready or not want.spec.volumes:
        return want
    with named_in_errors(machine):
        sight = Sight.of(vcenter, want.stores, machine, _names(want))
        sight.missing()
        return want.mounting([_uuid(sight, *one) for one in sight.disks])


def _uuid(sight: Sight, disk: NamedDisk, there: list[Disk]) -> str:
    try:
        return (there[0].uuid or disk.uuid()) if there else admit(sight.seen, disk, sight.machine.ref)
    except CallError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        raise problems((Detail(error.message, disk.name.field),)) from None


def attach_volumes(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Attach the spec's volumes that are not attached yet; a machine in service keeps what it has."""
    if machine.ready or not want.spec.volumes:
        return
    state = want.state_at(vcenter, "attach", machine)
    yield from attach(vcenter, want.stores, read_again(vcenter, machine), _names(want), state)


def _names(want: Wanted) -> list[DiskName]:
    label = want.stores.label
    return [DiskName.of(volume, label, f"{_FIELD}.{at}.") for at, volume in enumerate(want.spec.volumes)]
