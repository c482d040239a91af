"""Destroy a machine, and first take off it what has to outlive it."""

import json
from collections.abc import Mapping

from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.disks import Disk, disks_of, not_born_with, own_folder, refuse_snapshots
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.find import refs_of
from vsphere_functions.vsphere.follow import change, change_as_seen
from vsphere_functions.vsphere.identity import DETACHED
from vsphere_functions.vsphere.in_use import chains
from vsphere_functions.vsphere.machine import Machine, read_machines
from vsphere_functions.vsphere.power import power_off
from vsphere_functions.vsphere.reconfigure import reconfigure_spec, removals
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.settle import at_work, settle_machine
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import PLACES, Stores, around
from vsphere_functions.vsphere.vcenter import VCenter


def detached(told: str | None) -> list[dict[str, str]]:
    """Read a list of detached disks; whatever is no such list is empty."""
    try:
        found = json_text.loads(told or "[]")
    except CallError:
        return []
    disks = [_read(one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [one for one in disks if one.get("vmdkPath")]


def _read(told: dict[str, object]) -> dict[str, str]:
    return {name: value for name, value in told.items() if name in _TOLD and isinstance(value, str)}


def remove(
    vcenter: VCenter,
    stores: Stores,
    machine: Machine,
    state: State,
    seen: Mapping[Ref, Row] | None = None,
) -> Steps[State]:
    """Power the machine off, detach what has to outlive it, and destroy it; the state tells what was detached.

    A disk that is still being attached would go down with it: that is waited for. `seen` is what vCenter was at
    before the machine was read, if the caller has looked; else it is read anew.
    """
    tasks = at_work(vcenter) if seen is None else seen
    changed = yield from settle_machine(vcenter, machine, state, tasks)
    if changed or seen is None:
        machine = next(iter(read_machines(vcenter, [machine.ref])), machine)
    refuse_question(machine)
    yield from power_off(vcenter, machine, state)
    state = yield from detach(vcenter, stores, machine, state)
    yield from destroy(vcenter, machine, state)
    return state


def detach(vcenter: VCenter, stores: Stores, machine: Machine, state: State) -> Steps[State]:
    """Take off every disk that the machine was not born with; the state tells these and what earlier tries took off.

    The same reconfigure writes the list into the VM, so that an interrupted delete still reports it.
    FailedPrecondition when a disk cannot be taken off, or when a file that is not the machine's own is still
    part of it; nothing is destroyed then.
    """
    before = detached(machine.detached)
    disks = not_born_with(machine, stores)
    if not disks:
        _own_files_only(machine)
        return state.having_detached(machine.detached) if before else state
    refuse_snapshots(machine, disks)
    links = links_of(vcenter, stores, machine, disks)
    gone = _merged(before, [_told(disk, links.get(disk.path)) for disk in disks])
    told = json.dumps(gone, separators=(",", ":"))
    state = state.at("detach").having_detached(told)
    spec = reconfigure_spec({DETACHED: told}, deviceChange=removals(disks))
    what = "1 disk" if len(disks) == 1 else f"{len(disks)} disks"
    message = f"detaching {what}"
    yield from change(vcenter, "detach", machine.ref, "ReconfigVM_Task", state, message, spec=spec)
    _verify(vcenter, stores, machine)
    yield Step("detach", str(state), f"detached {what}")
    return state


def links_of(vcenter: VCenter, stores: Stores, machine: Machine, disks: list[Disk]) -> dict[str, str]:
    """Return the selfLinks of those disks that are volumes, by path; nothing is read when none looks like one."""
    if not any(stores.cover(disk.path) for disk in disks):
        return {}
    where = around(vcenter, stores, vcenter.scan(PLACES))
    rows = vcenter.read([machine.ref], {"VirtualMachine": ("datastore", "parent")})
    links = {}
    for disk in disks:
        spot = where.spot_of_backing(rows.get(machine.ref, {}), disk.device.get("backing") or {})
        store, key = spot and where.store_at(spot), spot and where.volume_at(spot)
        if store and key:
            links[disk.path] = key.link(store.vcenter)
    return links


def _merged(before: list[dict[str, str]], now: list[dict[str, str]]) -> list[dict[str, str]]:
    paths = {one["vmdkPath"] for one in now}
    return [*(one for one in before if one["vmdkPath"] not in paths), *now]


_TOLD = frozenset({"vmdkPath", "uuid", "selfLink", "fcdId"})


def _told(disk: Disk, link: str | None) -> dict[str, str]:
    told = {"vmdkPath": disk.path, "uuid": disk.uuid, "selfLink": link, "fcdId": disk.first_class_id}
    return {name: value for name, value in told.items() if value}


def _verify(vcenter: VCenter, stores: Stores, machine: Machine) -> None:
    """Read the machine again and refuse to go on while anything foreign is on it."""
    for again in read_machines(vcenter, [machine.ref]):
        left = not_born_with(again, stores)
        if left:
            paths = ", ".join(disk.path for disk in left)
            raise CallError(Code.FAILED_PRECONDITION, f"still attached: {paths}; nothing was destroyed")
        _own_files_only(again)


def _own_files_only(machine: Machine) -> None:
    """Refuse while a disk file that is not the machine's own is in a chain of its disks or snapshots."""
    folders = {disk.path.rpartition("/")[0] for disk in disks_of(machine.row.get("config.hardware.device"))}
    folders.add(own_folder(machine))
    for name in chains(machine.row):
        if name and name.rpartition("/")[0] not in folders:
            raise CallError(
                Code.FAILED_PRECONDITION, f"the file {name} is not the machine's own; nothing was destroyed"
            )


def destroy(vcenter: VCenter, machine: Machine, state: State) -> Steps[None]:
    """Destroy the VM and see that it is gone; a VM that another has destroyed meanwhile is gone as well.

    Aborted when another task had it: it may have been given a disk by that.
    """
    state, message = state.at("destroy"), "destroying the machine"
    try:
        yield from change_as_seen(vcenter, "destroy", machine.ref, "Destroy_Task", state, message)
    except CallError as error:
        if fault_name(error) != "ManagedObjectNotFound":
            raise
    if machine.ref in refs_of(vcenter, machine.uuid or "", instance=False):
        raise CallError(Code.ABORTED, f"the VM {machine.name!r} is still there after it was destroyed")
    yield Step("destroy", str(state), "the machine is gone")


def refuse_question(machine: Machine) -> None:
    """Refuse a machine that waits for an answer, with the question (vSphere API, runtime.question)."""
    question = machine.row.get("runtime.question")
    if question:
        text = question.get("text", "") if isinstance(question, dict) else ""
        raise CallError(Code.FAILED_PRECONDITION, f"the VM {machine.name!r} waits for an answer: {text}")
