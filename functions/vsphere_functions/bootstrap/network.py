"""What a guest is told of its cards' addresses: for cloud-init, and for systemd-networkd."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from typing import Any

from vsphere_events.networks import Network

_ANYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
"""Default routes in a form that every renderer of cloud-init takes (not all take `default`)."""


def network_config(cards: Sequence[Network], macs: Sequence[str]) -> dict[str, Any]:
    """Return network config version 2, each card matched by its MAC address (cloud-init, netplan)."""
    pairs = enumerate(zip(cards, macs, strict=True))
    return {"version": 2, "ethernets": {f"nic{at}": _ethernet(card, mac) for at, (card, mac) in pairs}}


def _ethernet(card: Network, mac: str) -> dict[str, Any]:
    names = {"addresses": list(card.nameservers), "search": list(card.search_domains)}
    told = {
        "addresses": list(card.addresses),
        "nameservers": {name: value for name, value in names.items() if value},
        "mtu": card.mtu,
        "routes": [_given(to=to, via=via, metric=metric) for to, via, metric in _routes(card)],
    }
    dhcp = {"dhcp4": card.uses_dhcp4, "dhcp6": bool(card.dhcp6)}
    return {"match": {"macaddress": mac}, **dhcp, **{name: value for name, value in told.items() if value}}


def networkd(card: Network, mac: str) -> str:
    """Return a .network file of systemd-networkd for the card."""
    dhcp = {(True, True): "yes", (True, False): "ipv4", (False, True): "ipv6", (False, False): "no"}
    lines = ["[Match]", f"MACAddress={mac}", ""]
    if card.mtu:
        lines += ["[Link]", f"MTUBytes={card.mtu}", ""]
    lines += ["[Network]", f"DHCP={dhcp[card.uses_dhcp4, bool(card.dhcp6)]}"]
    lines += [f"Address={one}" for one in card.addresses]
    lines += [f"DNS={one}" for one in card.nameservers]
    if card.search_domains:
        lines.append("Domains=" + " ".join(card.search_domains))
    for to, via, metric in _routes(card):
        lines += ["", "[Route]", f"Destination={to}", f"Gateway={via}"]
        lines += [] if metric is None else [f"Metric={metric}"]
    return "\n".join(lines) + "\n"


def _routes(card: Network) -> Iterator[tuple[str, str, int | None]]:
    for gateway, version in ((card.gateway4, 4), (card.gateway6, 6)):
        if gateway:
            yield _ANYWHERE[version], gateway, None
    for route in card.routes:
        yield str(ip_network(route.to)), route.via, route.metric


def _given(**told: Any) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}
