"""What vCenter still works on: which VM has which disk, and where that lies, is not known before it has ended."""

from collections.abc import Mapping

from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.follow import awaited
from vsphere_functions.vsphere.machine import IDENTITY, Machine, read_machines
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter

_TASK = ("info.state", "info.descriptionId", "info.entity")
_RECONFIGURE = "VirtualMachine.reconfig"
"""How the descriptionId of a reconfigure begins; the simulator's goes on otherwise than the product's."""
_MOVE = "VirtualDiskManager.moveVirtualDisk"


def at_work(vcenter: VCenter) -> Mapping[Ref, Row]:
    """Return the tasks that run or are queued."""
    tasks = vcenter.session.tasks(_TASK)
    return {task: row for task, row in tasks.items() if row.get("info.state") in {"queued", "running"}}


def settle(vcenter: VCenter, state: State) -> Steps[None]:
    """Wait for the reconfigures of machines of ours, and moves of disks, that run or are queued, whoever began them.

    A try that was cut short, or never heard what became of its call, lets go of its lease while vCenter goes on. Who
    holds the lease now and looks after this sees what became of it: another can only begin under the same lease.
    """
    tasks = at_work(vcenter)
    vms = _of_vms(tasks)
    found = {one.ref: one for one in read_machines(vcenter, {*vms.values()}, IDENTITY)}
    for task, vm in vms.items():
        machine = found.get(vm)
        if machine and (machine.own_mark or not machine.readable):  # whose it is, nobody knows then
            yield from _end(vcenter, state, task, machine)
    for task, row in tasks.items():
        if row.get("info.descriptionId") == _MOVE:
            yield from awaited(vcenter, state.phase, task, state, "waiting until a disk is moved")


def settle_machine(vcenter: VCenter, machine: Machine, state: State, tasks: Mapping[Ref, Row]) -> Steps[bool]:
    """Wait for the reconfigures of one machine among tasks; whether there was one, so that it stands otherwise now."""
    own = [task for task, vm in _of_vms(tasks).items() if vm == machine.ref]
    for task in own:
        yield from _end(vcenter, state, task, machine)
    return bool(own)


def _end(vcenter: VCenter, state: State, task: Ref, machine: Machine) -> Steps[None]:
    message = f"waiting until {machine.name!r} is reconfigured"
    yield from awaited(vcenter, state.phase, task, state, message)


def _of_vms(tasks: Mapping[Ref, Row]) -> dict[Ref, Ref]:
    """Return the reconfigures among tasks, and the VM of each."""
    return {
        task: row["info.entity"]
        for task, row in tasks.items()
        if "info.entity" in row and str(row.get("info.descriptionId")).startswith(_RECONFIGURE)
    }
