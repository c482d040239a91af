"""Reconfigures that vCenter still works on: what a VM has is not known before they have ended."""

from collections.abc import Iterator

from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.follow import awaited
from vsphere_functions.vsphere.machine import IDENTITY, Machine, read_machines
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter

_TASK = ("info.state", "info.descriptionId", "info.entity")
_KIND = "VirtualMachine.reconfig"
"""How the descriptionId of a reconfigure begins; the simulator's goes on otherwise than the product's."""


def settle(vcenter: VCenter, state: State, vm: Ref | None = None) -> Steps[None]:
    """Wait for the reconfigures that run or are queued, of one VM or of all machines of ours, whoever began them.

    A try that was cut short, or never heard what became of its call, lets go of its lease while vCenter goes on. Who
    holds the lease now and looks after this sees what became of it: another can only begin under the same lease.
    """
    for task, machine in _at_work(vcenter, vm):
        message = f"waiting until {machine.name!r} is reconfigured"
        yield from awaited(vcenter, state.phase, task, state, message)


def _at_work(vcenter: VCenter, vm: Ref | None) -> Iterator[tuple[Ref, Machine]]:
    """Yield the tasks and their machines; of a VM that cannot be read nobody knows whose it is."""
    tasks = {task: row["info.entity"] for task, row in vcenter.session.tasks(_TASK).items() if _runs(row)}
    wanted = {ref for ref in tasks.values() if vm in {None, ref}}
    found = {one.ref: one for one in read_machines(vcenter, wanted, IDENTITY)}
    for task, ref in tasks.items():
        machine = found.get(ref)
        if machine and (vm or machine.own_mark or not machine.readable):
            yield task, machine


def _runs(row: dict[str, object]) -> bool:
    kind = str(row.get("info.descriptionId") or "")
    return row.get("info.state") in {"queued", "running"} and kind.startswith(_KIND) and "info.entity" in row
