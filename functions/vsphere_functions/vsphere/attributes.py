"""Custom attributes: a machine's tags as people see them in vCenter."""

from pyVmomi import vim

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.machine import Machine, listed
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


class _Keys(dict[str, str]):
    """The keys of the custom attributes that VMs can have, by name, as a session saw them last."""


def show_tags(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Show each tag as a custom attribute; one call for each that is not shown yet."""
    keys = _keys(vcenter, want)
    shown = {str(one["key"]): one.get("value") for one in listed(machine.row.get("customValue"))}
    missing = {name: value for name, value in want.spec.tags.items() if shown.get(keys[name]) != value}
    if not missing:
        return
    for name, value in missing.items():
        _set(vcenter, machine, keys[name], value)
    state = want.state_at(vcenter, "show_tags", machine)
    yield Step("show_tags", str(state), f"{len(missing)} tags are shown as custom attributes")


def _set(vcenter: VCenter, machine: Machine, key: str, value: str) -> None:
    manager = vcenter.session.content["customFieldsManager"]
    try:
        vcenter.change("show_tags", manager, "SetField", entity=machine.ref, key=int(key), value=value)
    except CallError as error:
        if error.code is not Code.INVALID_ARGUMENT:
            raise
        vcenter.session.kept(_Keys).clear()
        raise CallError(
            Code.ABORTED, "a custom attribute has been removed; the next try makes it anew"
        ) from error


def _keys(vcenter: VCenter, want: Wanted) -> dict[str, str]:
    """Return the key of each tag's attribute, by name; missing ones are made."""
    keys, wanted = vcenter.session.kept(_Keys), want.spec.tags.keys()
    if not wanted <= keys.keys():
        known = known_attributes(vcenter)
        for name in wanted - known.keys():
            _add(vcenter, name)
        keys.update(known if wanted <= known.keys() else known_attributes(vcenter))
    return keys


def known_attributes(vcenter: VCenter) -> dict[str, str]:
    """Read the attributes that VMs can have; one of the same name for hosts is none of them."""
    manager = vcenter.session.content["customFieldsManager"]
    rows = vcenter.read([manager], {"CustomFieldsManager": ["field"]})
    return {
        field["name"]: str(field["key"])
        for field in listed(rows[manager].get("field"))
        if field.get("managedObjectType") in (None, "", "VirtualMachine", "ManagedEntity")
    }


def _add(vcenter: VCenter, name: str) -> None:
    manager = vcenter.session.content["customFieldsManager"]
    try:
        vcenter.change("show_tags", manager, "AddCustomFieldDef", name=name, moType=vim.VirtualMachine)
    except CallError as error:
        if fault_name(error) != "DuplicateName":  # another worker was quicker
            raise
