"""Clone a machine from its template, once, with its identity inside the clone."""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.faults import fault_of
from vsphere_functions.vsphere.find import adopt, refs_of
from vsphere_functions.vsphere.follow import follow, stop
from vsphere_functions.vsphere.identity import BORN, DETACHED, MARK
from vsphere_functions.vsphere.machine import BOOTSTRAP, IDENTITY, WHOLE, Machine, keyed, read_machines
from vsphere_functions.vsphere.place import Place
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.specs import clone_spec
from vsphere_functions.vsphere.storage import choose_datastore
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted

TEMPLATES_OWN = (BORN, DETACHED, *BOOTSTRAP)
"""Keys that a template may carry and no machine may inherit."""


def clone(vcenter: VCenter, want: Wanted, place: Place) -> Steps[Machine]:
    """Clone the template, powered off, and return the machine as the server made it.

    A VM of the name that is ours and of the same spec is adopted. AlreadyExists for any other; Aborted when
    the name is taken by a VM that cannot be read yet, or when another call's clone holds the identity.
    """
    try:
        ref = yield from _clone(vcenter, want, place)
    except CallError as error:
        fault = fault_of(error)
        if fault is None or fault.name != "DuplicateName":
            raise
        return _taken(vcenter, want, fault.fields.get("object"), error)
    _keep(vcenter, ref)
    machine = _read(vcenter, ref)
    others = [one for one in refs_of(vcenter, want.instance_uuid, instance=True) if one != ref]
    if _loses(machine, want, read_machines(vcenter, others, IDENTITY)):
        yield from _undo(vcenter, want, ref)
        raise CallError(Code.ABORTED, f"another call is making machine {want.machine!r}")
    return machine


def _clone(vcenter: VCenter, want: Wanted, place: Place) -> Steps[Ref]:
    extra = {
        **dict.fromkeys(TEMPLATES_OWN, ""),
        **want.spec.extra_config,
        MARK: str(want.mark(place.path)),
    }
    task = vcenter.change(
        "clone",
        place.template,
        "CloneVM_Task",
        folder=place.folder,
        name=want.machine,
        spec=clone_spec(want, place, choose_datastore(vcenter, want, place, extra), extra),
    )
    state = want.state(vcenter)
    where = f"{place.path}/{want.machine}"
    message = f"cloning {want.spec.template_vm} to {where}"
    try:
        ref: Ref = yield from follow(vcenter, "clone", task, state, message)
    except CallError as error:
        if error.code is Code.CANCELED:
            stop(vcenter, task)
        raise
    return ref


def _taken(vcenter: VCenter, want: Wanted, ref: Ref | None, error: CallError) -> Machine:
    """Decide about the VM that has the name already."""
    found = read_machines(vcenter, [ref] if ref else [])
    if not found or not found[0].readable:
        raise CallError(
            Code.ABORTED, f"the name {want.machine!r} is taken by a VM that cannot be read yet"
        ) from error
    return adopt(found[0], want)


def _keep(vcenter: VCenter, ref: Ref) -> None:
    """Ask once more whether the machine is still ours to make; if not, the clone goes, and nothing else.

    A clone that has its birth record has been taken over by the call that holds the lease now: it stays.
    """
    try:
        vcenter.fence.confirm()
    except CallError:
        for left in read_machines(vcenter, [ref]):
            if left.power == "poweredOff" and not left.row.get(keyed(BORN)):
                vcenter.session.call(ref, "Destroy_Task", step="destroy")  # the one change without a lease
        raise


def _read(vcenter: VCenter, ref: Ref) -> Machine:
    found = read_machines(vcenter, [ref], WHOLE)
    if not found or not found[0].uuid:
        raise CallError(Code.ABORTED, "the clone cannot be read yet; the next try finds it by its identity")
    return found[0]


def _loses(machine: Machine, want: Wanted, rivals: list[Machine]) -> bool:
    """Say whether this clone has to give way: its identity was reassigned, or an older one holds it."""
    if machine.row.get("config.instanceUuid") != want.instance_uuid:
        return True
    return any(_age(rival.ref) < _age(machine.ref) for rival in rivals if rival.own_mark)


def _age(ref: Ref) -> tuple[int, str]:
    """Order references as vCenter gives them out: `vm-9` before `vm-10`."""
    number = ref.id.rpartition("-")[2]
    return (int(number) if number.isdecimal() else 0, ref.id)


def _undo(vcenter: VCenter, want: Wanted, ref: Ref) -> Steps[None]:
    task = vcenter.change("destroy", ref, "Destroy_Task")
    state = want.state(vcenter)
    yield from follow(vcenter, "destroy", task, state, "removing a clone that another call's made needless")
