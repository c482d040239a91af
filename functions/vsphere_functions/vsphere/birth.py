"""The one reconfigure after a clone: what the machine was born with, and what its guest boots from."""

from collections.abc import Mapping
from typing import Any

from vsphere_events.model import problems
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.disks import birth_record, disks_of, not_born_with
from vsphere_functions.vsphere.follow import change
from vsphere_functions.vsphere.hardware import differing
from vsphere_functions.vsphere.identity import BORN, MARK, Mark
from vsphere_functions.vsphere.machine import Machine, keyed
from vsphere_functions.vsphere.macs import card_addresses
from vsphere_functions.vsphere.reconfigure import growth, reconfigure_spec
from vsphere_functions.vsphere.vapp import vapp_changes
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


def record_birth(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Record each disk's key and uuid, mend the mark, and set what the clone left out; powered off only.

    Bootstrap data is written again when it differs: tokens in it are renewed between tries.
    """
    extra = {} if machine.ready else _missing(machine, want)  # one in service only changes hands
    if machine.mark != (mark := _mark(machine, want)):
        extra[MARK] = str(mark)
    off = machine.power == "poweredOff" and not machine.ready
    settings = differing(machine, want.spec) | vapp_changes(machine, want) if off else {}
    larger = growth(want.spec, _own_devices(machine, want)) if off else []
    if not (extra or settings or larger):
        return
    state = want.state_at(vcenter, "record_birth", machine)
    spec = reconfigure_spec(extra, deviceChange=larger, **settings)
    message = "recording what the machine was born with"
    yield from change(vcenter, "record_birth", machine.ref, "ReconfigVM_Task", state, message, spec=spec)
    yield Step("record_birth", str(state), "recorded what the machine was born with")


def _missing(machine: Machine, want: Wanted) -> dict[str, str]:
    extra = {}
    if not machine.row.get(keyed(BORN)):
        extra[BORN] = birth_record(disks_of(_own_devices(machine, want)))
    if machine.power == "poweredOff":
        extra |= _boot_data(machine, want)
    return extra


def _own_devices(machine: Machine, want: Wanted) -> list[dict[str, Any]]:
    """Leave out the disks that are not the machine's own: they are not grown, and no part of its birth."""
    strangers = {disk.key for disk in not_born_with(machine, want.stores)}
    devices = machine.row.get("config.hardware.device") or []
    return [one for one in devices if int(one["key"]) not in strangers]


def _mark(machine: Machine, want: Wanted) -> Mark | None:
    """Return the mark as it should be now: nobody else's to undo, and with the uuid that the server gave."""
    mark = machine.mark and machine.mark.taken_on_by(want.maker)
    return mark if mark is None or mark.ready else mark.given(machine.uuid)


def _boot_data(machine: Machine, want: Wanted) -> Mapping[str, str]:
    """Return the guestinfo keys when they are not there yet as they should be."""
    guestinfo = want.boot.guestinfo(card_addresses(machine, want.spec)) if want.boot else {}
    if all(machine.row.get(keyed(key)) == value for key, value in guestinfo.items()):
        return {}
    if want.wrong:
        raise problems(tuple(want.wrong))
    return guestinfo


def mark_ready(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Note that the create got to its end, so that a machine that is off later was stopped, not half built."""
    mark = _mark(machine, want)
    if mark is None or mark.ready:
        return
    state = want.state_at(vcenter, "ready", machine)
    spec = reconfigure_spec({MARK: str(mark.finished())})
    yield from change(
        vcenter,
        "mark_ready",
        machine.ref,
        "ReconfigVM_Task",
        state,
        "noting that the machine is ready",
        spec=spec,
    )
    yield Step("ready", str(state), "the machine is ready", 100)
