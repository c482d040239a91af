"""What a guest is told of its network."""

import configparser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.networks import Network
from vsphere_functions.bootstrap.network import network_config, networkd

MAC, OTHER = "00:50:56:00:00:01", "00:50:56:aa:bb:cc"
STATIC = Network.parse(
    {
        "name": "blue",
        "addresses": ["10.0.0.5/24", "2001:db8::5/64"],
        "gateway4": "10.0.0.1",
        "gateway6": "fe80::1",
        "nameservers": ["10.0.0.53", "2001:db8::53"],
        "searchDomains": ["example.com", "example.org"],
        "mtu": 9000,
        "routes": [
            {"to": "10.9.0.0/16", "via": "10.0.0.9", "metric": 0},
            {"to": "10.8.0.0/16", "via": "10.0.0.9"},
        ],
    }
)
DHCP = Network(name="green", dhcp6=True, dhcp4=True)


def test_cloud_init_is_told_every_card_by_its_mac_address() -> None:
    assert network_config([STATIC, DHCP], [MAC, OTHER]) == {
        "version": 2,
        "ethernets": {
            "nic0": {
                "match": {"macaddress": MAC},
                "dhcp4": False,
                "dhcp6": False,
                "addresses": ["10.0.0.5/24", "2001:db8::5/64"],
                "nameservers": {
                    "addresses": ["10.0.0.53", "2001:db8::53"],
                    "search": ["example.com", "example.org"],
                },
                "mtu": 9000,
                "routes": [
                    {"to": "0.0.0.0/0", "via": "10.0.0.1"},
                    {"to": "::/0", "via": "fe80::1"},
                    {"to": "10.9.0.0/16", "via": "10.0.0.9", "metric": 0},
                    {"to": "10.8.0.0/16", "via": "10.0.0.9"},
                ],
            },
            "nic1": {"match": {"macaddress": OTHER}, "dhcp4": True, "dhcp6": True},
        },
    }


def _sections(unit: str) -> list[tuple[str, list[str]]]:
    """The sections of a unit file in order, with their lines."""
    found: list[tuple[str, list[str]]] = []
    for line in filter(None, unit.splitlines()):
        if line.startswith("["):
            found.append((line[1:-1], []))
        else:
            found[-1][1].append(line)
    return found


def test_networkd_is_told_the_same() -> None:
    assert _sections(networkd(STATIC, MAC)) == [
        ("Match", [f"MACAddress={MAC}"]),
        ("Link", ["MTUBytes=9000"]),
        (
            "Network",
            [
                "DHCP=no",
                "Address=10.0.0.5/24",
                "Address=2001:db8::5/64",
                "DNS=10.0.0.53",
                "DNS=2001:db8::53",
                "Domains=example.com example.org",
            ],
        ),
        ("Route", ["Destination=0.0.0.0/0", "Gateway=10.0.0.1"]),
        ("Route", ["Destination=::/0", "Gateway=fe80::1"]),
        ("Route", ["Destination=10.9.0.0/16", "Gateway=10.0.0.9", "Metric=0"]),
        ("Route", ["Destination=10.8.0.0/16", "Gateway=10.0.0.9"]),
    ]


@given(st.none() | st.booleans(), st.none() | st.booleans())
def test_networkd_asks_for_what_cloud_init_asks_for(four: Any, six: Any) -> None:
    card = Network(name="a", dhcp4=four, dhcp6=six)
    told = network_config([card], [MAC])["ethernets"]["nic0"]
    parser = configparser.ConfigParser()
    parser.read_string(networkd(card, MAC))
    asks = {"yes": (True, True), "ipv4": (True, False), "ipv6": (False, True), "no": (False, False)}
    assert asks[parser["Network"]["DHCP"]] == (told["dhcp4"], told["dhcp6"])
