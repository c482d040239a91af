"""The cards of a provider spec: what is checked of them before anything is called."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.requests import SPEC
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineRequest
from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec

MANY = {name: value for name, value in SPEC.items() if name != "network"}
FULL_CARD: dict[str, Any] = {
    "name": "net/blue",
    "switchUuid": "50 11 22",
    "macAddress": "00:50:56:3f:ff:ff",
    "dhcp4": False,
    "dhcp6": True,
    "addresses": ["10.0.0.5/24", "2001:db8::5/64"],
    "gateway4": "10.0.0.1",
    "gateway6": "fe80::1",
    "nameservers": ["10.0.0.53", "2001:db8::53"],
    "searchDomains": ["example.com"],
    "mtu": 9000,
    "routes": [{"to": "10.9.0.0/16", "via": "10.0.0.9", "metric": 7}],
}


def _spec(*cards: Any, **more: Any) -> CreateSpec:
    data = {"machineName": "w1", "providerSpec": MANY | {"networks": list(cards)} | more}
    return CreateMachineRequest.parse(data).provider_spec


def _fields(*cards: Any, **more: Any) -> list[str | None]:
    with pytest.raises(CallError) as caught:
        _spec(*cards, **more)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return [detail.field for detail in caught.value.details]


def test_a_card_is_kept_as_it_was_given() -> None:
    (card,) = _spec(FULL_CARD).cards
    assert card.wire() == FULL_CARD


def test_a_network_s_name_alone_is_one_card_by_dhcp() -> None:
    spec = CreateMachineRequest.parse({"machineName": "w1", "providerSpec": SPEC}).provider_spec
    assert spec.cards == (Network(name="VM Network"),)
    assert spec.cards[0].uses_dhcp4
    assert spec.networks == ()


@pytest.mark.parametrize(
    ("card", "asks"),
    [
        ({}, True),
        ({"dhcp4": True, "addresses": ["10.0.0.5/24"]}, True),
        ({"addresses": ["10.0.0.5/24"]}, False),
        ({"dhcp6": True}, False),
        ({"dhcp4": False}, False),
    ],
    ids=str,
)
def test_a_card_asks_for_an_ipv4_address_unless_something_else_is_said(card: Any, asks: bool) -> None:
    assert Network.parse({"name": "a", **card}).uses_dhcp4 is asks


def test_exactly_one_of_network_and_networks_is_given() -> None:
    assert _fields({"name": "a"}, network="b") == ["providerSpec.network"]
    assert _fields() == ["providerSpec.network"]
    assert _fields({"name": "a"}, switchUuid="50") == ["providerSpec.switchUuid"]


@pytest.mark.parametrize("mac", ["00:50:56:00:00:00", "00:50:56:3F:FF:FF", "00:50:56:1a:2b:3c"])
def test_m54_a_mac_address_of_vmware_s_range_is_taken(mac: str) -> None:
    assert _spec({"name": "a", "macAddress": mac}).cards[0].mac_address == mac.lower()


@pytest.mark.parametrize(
    "mac",
    ["00:50:56:40:00:00", "00:50:57:00:00:00", "00:0c:29:00:00:00", "00-50-56-00-00-00", "005056000000", "x"],
)
def test_m54_any_other_mac_address_is_refused(mac: str) -> None:
    assert _fields({"name": "a"}, {"name": "b", "macAddress": mac}) == ["providerSpec.networks.1.macAddress"]


@given(st.integers(0, 2**24 - 1))
def test_m54_the_range_ends_where_it_should(low: int) -> None:
    mac = "00:50:56:" + ":".join(f"{low:06x}"[at : at + 2] for at in (0, 2, 4))
    try:
        taken = _spec({"name": "a", "macAddress": mac}).cards[0].mac_address == mac
    except CallError:
        taken = False
    assert taken is (low <= 0x3FFFFF)


@pytest.mark.parametrize(
    ("card", "field"),
    [
        ({"addresses": ["10.0.0.5"]}, "addresses.0"),
        ({"addresses": ["10.0.0.0/24"]}, "addresses.0"),
        ({"addresses": ["10.0.0.255/24"]}, "addresses.0"),
        ({"addresses": ["10.0.0.5/33"]}, "addresses.0"),
        ({"addresses": ["127.0.0.1/8"]}, "addresses.0"),
        ({"addresses": ["ff02::1/64"]}, "addresses.0"),
        ({"addresses": ["10.0.0.5/24", "10.0.0.5/16"]}, "addresses"),
        ({"gateway4": "10.0.0.1"}, "gateway4"),
        ({"gateway4": "10.0.1.1", "addresses": ["10.0.0.5/24"]}, "gateway4"),
        ({"gateway4": "fe80::1", "addresses": ["fe80::2/64"]}, "gateway4"),
        ({"gateway6": "2001:db8::1", "addresses": ["2001:db8:1::5/64"]}, "gateway6"),
        ({"nameservers": ["dns"]}, "nameservers.0"),
        ({"searchDomains": ["a b"]}, "searchDomains.0"),
        ({"searchDomains": ["a\nDNS=1"]}, "searchDomains.0"),
        ({"mtu": 500}, "mtu"),
        ({"routes": [{"to": "10.0.0.1/8", "via": "10.0.0.1"}]}, "routes.0.to"),
        ({"routes": [{"to": "10.0.0.0/8", "via": "fe80::1"}]}, "routes.0.via"),
        ({"routes": [{"to": "10.0.0.0/8"}]}, "routes.0.via"),
    ],
    ids=str,
)
def test_a_violation_of_a_card_is_named_by_its_path(card: Any, field: str) -> None:
    assert _fields({"name": "a", **card}) == [f"providerSpec.networks.0.{field}"]


def test_a_card_with_an_unknown_field_is_named() -> None:
    assert _fields({"name": "a", "colour": "red"}) == ["providerSpec.networks.0"]


def test_small_networks_have_no_address_of_their_own() -> None:
    for address in ("10.0.0.0/31", "10.0.0.1/32", "2001:db8::/64"):
        assert _spec({"name": "a", "addresses": [address]}).cards[0].addresses == (address,)


def test_an_address_is_given_to_one_card_only() -> None:
    twice = [{"name": "a", "addresses": ["10.0.0.5/24"], "macAddress": "00:50:56:00:00:01"}] * 2
    assert _fields(*twice) == ["providerSpec.networks.1.macAddress", "providerSpec.networks.1.addresses"]


def test_a_static_address_needs_a_way_into_the_guest() -> None:
    static = {"name": "a", "addresses": ["10.0.0.5/24"]}
    assert _fields(static, bootstrap="none") == ["providerSpec.networks.0.addresses"]
    assert _spec({"name": "a"}, bootstrap="none").boots_by == "none"


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from([*FULL_CARD, "x"]), x),
    )
)
def test_whatever_stands_for_networks_is_taken_or_refused(networks: Any) -> None:
    data = {"machineName": "w1", "providerSpec": MANY | {"networks": networks}}
    with suppress(CallError):
        CreateMachineRequest.parse(data)
