"""Find the machine that a request is about, by identity; prove that there is none."""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import DeleteMachineRequest
from vsphere_events.provider_id import ProviderID
from vsphere_events.volume import AttachVolumeRequest
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.follow import join
from vsphere_functions.vsphere.identity import instance_uuid
from vsphere_functions.vsphere.inventory import every_vm
from vsphere_functions.vsphere.machine import (
    IDENTITY,
    WHOLE,
    Machine,
    named_in_errors,
    provider_id,
    read_machines,
)
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


def find_own(vcenter: VCenter, want: Wanted) -> Steps[Machine | None]:
    """Return the machine that the request wants, when it stands already; joins its recorded clone first.

    A VM can be found while it is cloned, and does not have all its disks and cards then.
    OutOfRange when several VMs carry the identity, AlreadyExists when ours was made from another spec,
    Unavailable when it is out of reach.
    """
    state = want.state(vcenter)
    if state.phase == "clone" and state.task:
        yield from join(vcenter, "clone", state)
    machine = _by_instance(vcenter, want.owner, want.machine)
    return machine and adopt(machine, want)


def adopt(machine: Machine, want: Wanted) -> Machine:
    """Return a machine of ours when it is the one that the request wants; AlreadyExists otherwise.

    FailedPrecondition for one that a delete has begun to take apart: it would come up without its disks.
    """
    mark = machine.own_mark
    if mark is None or (mark.owner, mark.machine) != (want.owner, want.machine):
        raise CallError(
            Code.ALREADY_EXISTS, f"a VM named {machine.name!r} is there and is not ours; it was left alone"
        )
    if mark.digest != want.digest:
        raise CallError(
            Code.ALREADY_EXISTS,
            f"machine {want.machine!r} stands already, made from another spec; it was left alone: "
            "delete it first, or take another name",
            provider_id=str(provider_id(machine)),
        )
    if machine.detached:
        raise CallError(
            Code.FAILED_PRECONDITION,
            f"a delete of machine {want.machine!r} has begun and taken disks off it; delete it first",
            provider_id=str(provider_id(machine)),
        )
    return reachable(machine)


def reachable(machine: Machine) -> Machine:
    """Return the machine when its VM can be worked on; Unavailable, naming the state, otherwise."""
    if not machine.connected:
        state = machine.row.get("runtime.connectionState")
        with named_in_errors(machine):
            raise CallError(Code.UNAVAILABLE, f"the VM {machine.name!r} is {state}; nothing was changed")
    return machine


def find_machine(
    vcenter: VCenter,
    owner: str,
    name: str | None,
    given: ProviderID | None = None,
    paths: tuple[str, ...] = WHOLE,
) -> Machine | None:
    """Return the owner's machine by providerID when one is given, else by name; None when it is proven absent.

    FailedPrecondition when the providerID belongs to a VM that is not this machine, OutOfRange when several
    VMs carry the identity, Unavailable when neither presence nor absence can be shown.
    """
    if given is None:
        found = _by_instance(vcenter, owner, name or "", paths)
    else:
        found = _by_provider_id(vcenter, owner, name, given, paths)
    if found is None:
        found = _by_mark(vcenter, owner, name, given, paths)
    return found and reachable(found)


def find_named(
    vcenter: VCenter, owner: str, request: DeleteMachineRequest | AttachVolumeRequest
) -> Steps[tuple[Machine | None, State]]:
    """Return the machine that a request names, or None when it is proven absent, and what earlier tries left to say.

    A task that one of them recorded is waited for first: a clone would outlive a delete that found nothing.
    """
    identity = instance_uuid(owner, request.machine_name)
    state = State.of(request.last_known_state, vcenter.session.instance_uuid, identity)
    if state.task:
        yield from join(vcenter, state.phase, state)
    machine = find_machine(vcenter, owner, request.machine_name, request.provider_id)
    if machine is not None:
        state = state.at(state.phase, vm=machine.ref.id, uuid=machine.uuid)
    return machine, state


def _by_instance(vcenter: VCenter, owner: str, name: str, paths: tuple[str, ...] = WHOLE) -> Machine | None:
    hits = by_uuid(vcenter, instance_uuid(owner, name), instance=True, paths=paths)
    return _only([one for one in hits if _is_of(one, owner, name)])


def _by_provider_id(
    vcenter: VCenter, owner: str, name: str | None, given: ProviderID, paths: tuple[str, ...]
) -> Machine | None:
    hits = by_uuid(vcenter, given.uuid, instance=False, paths=paths)
    found = _only([one for one in hits if _is_of(one, owner, name)])
    if hits and found is None:
        raise CallError(
            Code.FAILED_PRECONDITION,
            f"the VM of {given} does not carry the mark of this machine and owner; it was left alone",
        )
    return found


def by_uuid(
    vcenter: VCenter, uuid: str, *, instance: bool, paths: tuple[str, ...] = IDENTITY
) -> list[Machine]:
    """Return all VMs of that instance or BIOS uuid, in every datacenter."""
    return read_machines(vcenter, refs_of(vcenter, uuid, instance=instance), paths)


def refs_of(vcenter: VCenter, uuid: str, *, instance: bool) -> list[Ref]:
    """Return the references of all VMs of that instance or BIOS uuid; an empty list comes from a live session."""
    index = vcenter.session.content["searchIndex"]
    return vcenter.ask(index, "FindAllByUuid", uuid=uuid, vmSearch=True, instanceUuid=instance) or []


def _by_mark(
    vcenter: VCenter, owner: str, name: str | None, given: ProviderID | None, paths: tuple[str, ...]
) -> Machine | None:
    """Look through every VM for the mark; a VM that cannot be read may be the one, so absence is unproven."""
    seen = every_vm(vcenter)
    ours = [one for one in seen if _is_of(one, owner, name) and _is_incarnation(one, given)]
    found = _only(ours)
    if found is not None:
        return _only(read_machines(vcenter, [found.ref], paths))
    blind = [one for one in seen if not one.readable and name in (None, one.name)]
    if blind:
        raise CallError(
            Code.UNAVAILABLE,
            f"the VM {blind[0].name!r} cannot be read at the moment and may be this machine; nothing was changed",
        )
    return None


def _is_of(machine: Machine, owner: str, name: str | None) -> bool:
    mark = machine.own_mark
    return mark is not None and mark.owner == owner and name in (None, mark.machine)


def _is_incarnation(machine: Machine, given: ProviderID | None) -> bool:
    mark = machine.mark
    return given is None or (mark is not None and given.uuid in (machine.uuid, mark.incarnation))


def _only(machines: list[Machine]) -> Machine | None:
    if len(machines) > 1:
        names = ", ".join(sorted(f"{one.name} ({one.ref.id})" for one in machines))
        raise CallError(Code.OUT_OF_RANGE, f"more than one VM carries this machine's identity: {names}")
    return machines[0] if machines else None
