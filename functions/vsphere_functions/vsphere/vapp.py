"""vApp properties: which a template lets people set, and what a machine gets in them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyVmomi import vim

from vsphere_events.error import Detail
from vsphere_events.model import problems
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.machine import Machine
from vsphere_functions.vsphere.macs import card_addresses
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.wanted import Wanted

PROPERTIES = "config.vAppConfig.property"
_TEXTS = (
    "classId",
    "instanceId",
    "id",
    "category",
    "label",
    "type",
    "typeReference",
    "defaultValue",
    "description",
)


def unsettable(spec: CreateSpec, row: Row) -> list[Detail]:
    """Name the explicit properties that the VM does not have or does not let people set."""
    there = _by_id(row)
    settable = tuple(sorted(name for name, one in there.items() if _settable(one)))
    found = []
    for name in spec.vapp.properties if spec.vapp else ():
        field = f"providerSpec.vapp.properties.{name}"
        if name not in there:
            found.append(Detail("the template has no such vApp property", field, settable[:20]))
        elif name not in settable:
            found.append(Detail("the template does not let people set this property", field, settable[:20]))
    return found


def vapp_changes(machine: Machine, want: Wanted) -> dict[str, Any]:
    """Return the field of a ConfigSpec that sets the machine's properties, when one differs.

    Explicit values take the place of all generated ones; what is in neither goes back to its default.
    """
    there = _by_id(machine.row)
    if want.spec.vapp is not None:
        if wrong := unsettable(want.spec, machine.row):
            raise problems(tuple(wrong))
        values: Mapping[str, str] = want.spec.vapp.properties
    elif want.boot is None or want.spec.boots_by == "none" or not there:
        return {}
    else:
        values = want.boot.properties(card_addresses(machine, want.spec))
    changes = [
        vim.vApp.PropertySpec(operation="edit", info=_info(one, wanted))
        for name, one in there.items()
        if _settable(one)
        and (wanted := values.get(name, one.get("defaultValue", ""))) != one.get("value", "")
    ]
    return {"vAppConfig": vim.vApp.VmConfigSpec(property=changes)} if changes else {}


def _info(shown: Row, value: str) -> Any:
    """Describe the property whole, with its new value: an edit replaces it."""
    texts = {name: shown[name] for name in _TEXTS if name in shown}
    return vim.vApp.PropertyInfo(key=int(shown["key"]), userConfigurable=True, value=value, **texts)


def _by_id(row: Row) -> dict[str, Row]:
    shown: Iterable[Row] = row.get(PROPERTIES) or []
    return {str(one.get("id", "")): one for one in shown}


def _settable(shown: Row) -> bool:
    return str(shown.get("userConfigurable", "")).lower() in ("true", "1")
