"""Customization specs that vCenter keeps under a name, with which a guest is set up at its first boot."""

from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.vcenter import VCenter

_FIELD = "providerSpec.customization"


def stored_customization(vcenter: VCenter, spec: CreateSpec) -> Any:
    """Return the stored spec as the clone takes it, None when none is named; passwords in it stay encrypted."""
    if spec.customization is None:
        return None
    manager = vcenter.session.content["customizationSpecManager"]
    return vcenter.ask(manager, "GetCustomizationSpec", name=spec.customization).spec


def customization_wrong(vcenter: VCenter, spec: CreateSpec) -> list[Detail]:
    """Name a stored spec that is not there, or that describes another number of cards than the machine has."""
    try:
        stored = stored_customization(vcenter, spec)
    except CallError as error:
        if fault_name(error) != "NotFound":
            raise
        return [Detail(f'no customization spec "{spec.customization}"', _FIELD, _names(vcenter))]
    cards = len(stored.nicSettingMap or []) if stored else 0
    if cards and cards != len(spec.cards):
        reason = f"it describes {cards} network cards and the machine has {len(spec.cards)}"
        return [Detail(reason, _FIELD)]
    return []


def _names(vcenter: VCenter) -> tuple[str, ...]:
    manager = vcenter.session.content["customizationSpecManager"]
    row = vcenter.read([manager], {"CustomizationSpecManager": ["info"]}).get(manager)
    if row is None:
        raise CallError(Code.UNAVAILABLE, "vCenter does not show its customization specs")
    return tuple(sorted(one["name"] for one in row.get("info") or []))[:20]
