"""Which addresses a machine's network cards have got."""

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.machine import Machine


def card_addresses(machine: Machine, spec: CreateSpec) -> list[str]:
    """Return the MAC addresses of the cards that `networks` describes, in its order.

    Those it gives itself, and for the others what vCenter gave, by slot. Aborted when one is missing.
    """
    given = {card.mac_address for card in spec.networks if card.mac_address}
    others = (mac for mac in machine.macs if mac and mac not in given)
    found = [card.mac_address or next(others, "") for card in spec.networks]
    if not all(found):
        raise CallError(Code.ABORTED, f"not every network card of {machine.name!r} has an address yet")
    return found
