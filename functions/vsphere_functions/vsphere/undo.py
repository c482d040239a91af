"""Take back what a canceled create has made: its own machine and no other."""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.destroy import remove
from vsphere_functions.vsphere.find import reachable
from vsphere_functions.vsphere.follow import awaited
from vsphere_functions.vsphere.inventory import every_vm
from vsphere_functions.vsphere.machine import Machine, read_machines
from vsphere_functions.vsphere.place import look
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.settle import at_work
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


def undo_machine(vcenter: VCenter, want: Wanted) -> Steps[None]:
    """Destroy the machine that this request has made, once no clone of it can come any more.

    It carries this request's own name; one that was adopted, or that another request has gone on with, does not.
    What it was not born with is detached first. Unavailable while a VM that may be it cannot be read.
    """
    state = want.state(vcenter)
    if state.phase == "clone" and state.task:
        yield from _wait(vcenter, state, [Ref("Task", state.task)])
    made = _made(vcenter, want)
    if not made:  # asked for and never recorded: then vCenter still works on it
        yield from _wait(vcenter, state, _tasks_of_the_template(vcenter, want))
        made = _made(vcenter, want)
    for machine in read_machines(vcenter, made):
        state = state.at("undo", vm=machine.ref.id, uuid=machine.uuid)
        state = yield from remove(vcenter, want.stores, reachable(machine), state)


def _made(vcenter: VCenter, want: Wanted) -> list[Ref]:
    seen = every_vm(vcenter)
    blind = [one for one in seen if not one.readable and one.name == want.machine]
    if blind:
        raise CallError(
            Code.UNAVAILABLE, f"the VM {want.machine!r} cannot be read at the moment and may be its machine"
        )
    return [one.ref for one in seen if _is_made_by(one, want)]


def _is_made_by(machine: Machine, want: Wanted) -> bool:
    mark = machine.own_mark
    told = mark and (mark.owner, mark.machine, mark.maker)
    return bool(want.maker) and told == (want.owner, want.machine, want.maker)


def _wait(vcenter: VCenter, state: State, tasks: list[Ref]) -> Steps[None]:
    """Wait until clones have ended, however they end."""
    for task in tasks:
        yield from awaited(vcenter, "undo", task, state, "waiting for the clone to end")


def _tasks_of_the_template(vcenter: VCenter, want: Wanted) -> list[Ref]:
    template = look(vcenter, want)[0].template
    return [task for task, row in at_work(vcenter).items() if template and row.get("info.entity") == template]
