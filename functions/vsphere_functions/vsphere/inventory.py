"""Every VM of a vCenter, sorted by what it is to an owner: whole, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.provider_spec import ProviderSpec
from vsphere_functions.vsphere.atlas import Atlas
from vsphere_functions.vsphere.attributes import known_attributes
from vsphere_functions.vsphere.machine import SEEN, Machine, listed, machines
from vsphere_functions.vsphere.passes import Passes
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.vcenter import VCenter


class _Passes(Passes[tuple[Machine, ...]]):
    """The passes over all VMs of a session."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """An owner's machines; `copies` and `unknown` are names of VMs that are none, or may be."""

    machines: list[Machine] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def every_vm(vcenter: VCenter) -> tuple[Machine, ...]:
    """Read whose every VM is; PermissionDenied where the account cannot even see the root folder.

    Those who ask at the same time are given the same machines: each mark is read, and held, once for all of them.
    """
    root = vcenter.session.content["rootFolder"]

    def look() -> tuple[Machine, ...]:
        vcenter.read([root], {"Folder": ["name"]})
        seen = tuple(machines(vcenter.scan({"VirtualMachine": SEEN})))
        # A VM whose BIOS uuid was changed is told from a copy by its instance uuid, which few have to be asked for.
        odd = {one.ref: one.row for one in seen if _is_odd(one)}
        for ref, row in vcenter.read(odd, {"VirtualMachine": ["config.instanceUuid"]}).items():
            odd[ref].update(row)
        return seen

    return vcenter.session.kept(_Passes).share(look)


def _is_odd(machine: Machine) -> bool:
    mark = machine.mark
    return mark is not None and not mark.is_of(machine.uuid, None)


def inventory(vcenter: VCenter, spec: ProviderSpec, creating: frozenset[str]) -> Inventory:
    """Sort every VM; Unavailable when one that cannot be read may be one of the owner's.

    A VM without `config` (early in a clone, or inaccessible) is unknown, not foreign: it is the owner's when a
    record says that it is being created, or when its custom attributes are the owner's.
    """
    owner, found = str(spec.owner), Inventory()
    blind: list[Machine] = []
    for machine in every_vm(vcenter):
        mark, own = machine.mark, machine.own_mark
        if not machine.readable:
            blind.append(machine)
        elif own is not None and own.owner == owner:
            found.machines.append(machine)
        elif mark is not None and mark.owner == owner and not machine.row.get("config.template"):
            found.copies.append(machine.name)
    if blind:
        _judge(vcenter, spec, creating, blind, found)
    return found


def _judge(
    vcenter: VCenter, spec: ProviderSpec, creating: frozenset[str], blind: list[Machine], found: Inventory
) -> None:
    """Decide about VMs without `config`; those of the owner cannot be listed without a uuid, so none is."""
    rows = vcenter.read([one.ref for one in blind], {"VirtualMachine": ("name", "parent", "customValue")})
    atlas = Atlas.survey(vcenter)
    folder = Resolved(atlas).own_folder(spec)
    names = {key: name for name, key in known_attributes(vcenter).items()}
    for ref, row in rows.items():
        machine = Machine(ref, row)
        if machine.name in creating:
            continue
        if _shows(row, names, spec.tags) or (
            folder is not None and folder in atlas.lineage(row.get("parent"))
        ):
            raise CallError(
                Code.UNAVAILABLE,
                f"the VM {machine.name!r} cannot be read at the moment; no part of the list is given",
            )
        found.unknown.append(machine.name)


def _shows(row: Row, names: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """Say whether the VM's custom attributes are the owner's tags."""
    shown = {names.get(str(one["key"])): one.get("value") for one in listed(row.get("customValue"))}
    return bool(tags) and all(shown.get(name) == value for name, value in tags.items())
