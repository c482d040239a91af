"""The network cards of a machine, as a provider spec describes them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface, ip_address, ip_interface, ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from vsphere_events.model import Bool, Int, Model, Name, OptionalName

_BY_HAND = re.compile(r"00:50:56:[0-3][0-9a-f](:[0-9a-f]{2}){2}")
"""The addresses that VMware leaves to people; vCenter refuses others, or gives them to two machines."""

_DOMAIN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


def _mac(text: str | None) -> str | None:
    mac = text.lower() if text else None
    if mac and not _BY_HAND.fullmatch(mac):
        raise ValueError("should be a MAC address from 00:50:56:00:00:00 to 00:50:56:3f:ff:ff")
    return mac


def _address(text: str) -> str:
    """Take an address of a host with the length of its prefix."""
    try:
        found = ip_interface(text)
    except ValueError:
        raise ValueError("should be an IPv4 or IPv6 address in CIDR form, such as 10.0.0.5/24") from None
    if "/" not in text:
        raise ValueError("has no prefix length, such as /24")
    if found.ip.is_multicast or found.ip.is_loopback or found.ip.is_unspecified:
        raise ValueError("is no address that a machine can have")
    if _names_the_network(found):
        raise ValueError("is the address of the network itself or its broadcast address")
    return str(found)


def _names_the_network(found: IPv4Interface | IPv6Interface) -> bool:
    net = found.network
    return found.version == 4 and net.num_addresses > 2 and found.ip in (net[0], net[-1])


def _ip(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError("should be an IPv4 or IPv6 address") from None


def _gateway(version: int) -> AfterValidator:
    def checked(text: str | None) -> str | None:
        gateway = ip_address(_ip(text)) if text else None
        if gateway is not None and gateway.version != version:
            raise ValueError(f"should be an IPv{version} address")
        return str(gateway) if gateway else None

    return AfterValidator(checked)


def _destination(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError("should be a network in CIDR form without host bits, such as 10.1.0.0/16") from None


def _domain(text: str) -> str:
    if not _DOMAIN.fullmatch(text):
        raise ValueError("should be a DNS domain")
    return text


class Route(Model):
    """A route of a card: `to` in CIDR form, by the gateway `via`."""

    to: Annotated[str, AfterValidator(_destination)]
    via: Annotated[str, AfterValidator(_ip)]
    metric: Annotated[Int | None, Field(ge=0, le=2**32 - 1)] = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand one IP version."""
        if (":" in str(given["to"])) != (":" in str(given["via"])):
            yield "via", "is of another IP version than the destination"


class Network(Model):
    """A card: the network it is on (name or path), its addresses, and what the guest is told of them.

    Without static addresses the guest is told to use DHCP, unless `dhcp4` or `dhcp6` says otherwise.
    """

    name: Name
    switch_uuid: OptionalName = None
    mac_address: Annotated[OptionalName, AfterValidator(_mac)] = None
    dhcp4: Bool | None = None
    dhcp6: Bool | None = None
    addresses: Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], Field(max_length=64)] = ()
    gateway4: Annotated[OptionalName, _gateway(4)] = None
    gateway6: Annotated[OptionalName, _gateway(6)] = None
    nameservers: Annotated[tuple[Annotated[str, AfterValidator(_ip)], ...], Field(max_length=16)] = ()
    search_domains: Annotated[tuple[Annotated[str, AfterValidator(_domain)], ...], Field(max_length=32)] = ()
    mtu: Annotated[Int | None, Field(ge=576, le=9190)] = None
    routes: Annotated[tuple[Route, ...], Field(max_length=64)] = ()

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand that a gateway can be reached: in the subnet of an address, or link-local (IPv6)."""
        nets = [net for net in map(_subnet, _texts(given["addresses"])) if net]
        for name in ("gateway4", "gateway6"):
            gateway = _parsed(given[name])
            if gateway is None or (gateway.version == 6 and gateway.is_link_local):
                continue
            if not any(gateway in net for net in nets):
                yield name, "lies in the subnet of none of the addresses"

    @property
    def uses_dhcp4(self) -> bool:
        """Whether the card asks for an IPv4 address: as it says, else when nothing else is said."""
        return self.dhcp4 if self.dhcp4 is not None else not (self.addresses or self.dhcp6)


def doubles(networks: Any) -> Iterator[tuple[str, str]]:
    """Yield (field, reason) for each MAC or IP address that raw networks give twice."""
    seen: set[str] = set()
    for at, card in enumerate(networks if isinstance(networks, Sequence) else ()):
        if isinstance(card, Network):
            card = card.wire()  # noqa: PLW2901 - the same card in the wire's spelling
        if not isinstance(card, Mapping):
            continue
        mac = card.get("macAddress")
        hosts = (str(net) for net in map(_host, _texts(card.get("addresses"))) if net)
        held = [("macAddress", mac.lower())] if isinstance(mac, str) and mac else []
        for name, one in [*held, *(("addresses", host) for host in hosts)]:
            if one in seen:
                yield f"networks.{at}.{name}", f"{one} is given twice"
            seen.add(one)


def _texts(given: Any) -> list[str]:
    return [one for one in given if isinstance(one, str)] if isinstance(given, list | tuple) else []


def _subnet(text: str) -> Any:
    try:
        return ip_interface(text).network
    except ValueError:
        return None


def _host(text: str) -> Any:
    try:
        return ip_interface(text).ip
    except ValueError:
        return None


def _parsed(given: Any) -> Any:
    try:
        return ip_address(given) if isinstance(given, str) and given else None
    except ValueError:
        return None
