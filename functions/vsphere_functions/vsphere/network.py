"""A machine's network cards: what a clone is to do with the template's."""

from typing import Any

from pyVmomi import vim

from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.place import Place
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import reference

_DEVICE = vim.vm.device
_EDIT, _ADD, _REMOVE = (_DEVICE.VirtualDeviceSpec.Operation(name) for name in ("edit", "add", "remove"))
NEW_CARD = -100
"""A device key that only says "new"; the server gives the real one."""


def card_changes(spec: CreateSpec, place: Place) -> list[Any]:
    """Put the machine's cards on their networks; none of the template's stays as it is.

    A single card is the template's first one, so that its slot in the guest stays. Several are all new, so that
    their order is that of the spec.
    """
    cards = [device for device in place.devices if "macAddress" in device]
    kept = cards[0] if cards and len(spec.cards) == 1 else None
    changes = [
        _DEVICE.VirtualDeviceSpec(
            operation=_REMOVE, device=getattr(_DEVICE, one["_type"])(key=int(one["key"]))
        )
        for one in cards
        if one is not kept
    ]
    for at, (card, network) in enumerate(zip(spec.cards, place.networks, strict=True)):
        device = _card(kept, cards[0]["_type"] if cards else "VirtualVmxnet3", NEW_CARD - at)
        _address(device, card)
        device.backing = _backing(place, network)
        changes.append(_DEVICE.VirtualDeviceSpec(operation=_EDIT if kept else _ADD, device=device))
    return changes


def _card(kept: dict[str, Any] | None, kind: str, key: int) -> Any:
    """Make a card: the template's in its slot, or a new one of the kind."""
    card = getattr(_DEVICE, kind)(
        key=int(kept["key"]) if kept else key,
        connectable=_DEVICE.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=True
        ),
    )
    for name in ("controllerKey", "unitNumber"):
        if kept and name in kept:
            setattr(card, name, int(kept[name]))
    return card


def _address(device: Any, card: Network) -> None:
    """Set the address that the spec gives; else one is generated: two machines must not share their template's."""
    device.addressType = "manual" if card.mac_address else "generated"
    device.macAddress = card.mac_address or ""


def _backing(place: Place, network: Ref) -> Any:
    """Name the network as its kind wants it: by port group, by NSX id, or by name."""
    row = place.atlas.rows[network]
    card = _DEVICE.VirtualEthernetCard
    if network.type == "DistributedVirtualPortgroup":
        port = vim.dvs.PortConnection(portgroupKey=row["key"], switchUuid=place.atlas.switch(network))
        return card.DistributedVirtualPortBackingInfo(port=port)
    if network.type == "OpaqueNetwork":
        return card.OpaqueNetworkBackingInfo(
            opaqueNetworkId=row["summary.opaqueNetworkId"],
            opaqueNetworkType=row["summary.opaqueNetworkType"],
        )
    name = place.atlas.name(network)
    return card.NetworkBackingInfo(deviceName=name, network=reference(network))
