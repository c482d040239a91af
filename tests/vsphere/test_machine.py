"""A machine as its row shows it."""

from typing import Any

import pytest

from vsphere_functions.vsphere.machine import Machine, addresses
from vsphere_functions.vsphere.ref import Ref


def nic(*ips: str, card: int = 4000) -> dict[str, Any]:
    """A card as vSphere tells of it; one that only the guest knows has the number -1."""
    return {"_type": "GuestNicInfo", "deviceConfigId": str(card), "ipAddress": list(ips)}


@pytest.mark.parametrize(
    ("nics", "told"),
    [
        (None, []),
        ([nic()], []),
        ([nic("10.0.0.21", "fe80::250:56ff:fe00:1")], ["10.0.0.21"]),
        ([nic("2001:db8::21")], ["2001:db8::21"]),
        ([nic("169.254.3.4", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1")], []),
        (
            [nic("172.17.0.1", card=-1), nic("10.0.0.21"), nic("10.1.0.21", card=4001)],
            ["10.0.0.21", "10.1.0.21"],
        ),
        ([nic("not an address")], []),
    ],
)
def test_m42_only_addresses_that_others_can_reach_are_told(nics: Any, told: list[str]) -> None:
    row = {} if nics is None else {"guest.net": nics}
    found = addresses(Machine(Ref("VirtualMachine", "vm-1"), row))
    assert [(one.type, one.address) for one in found] == [("InternalIP", address) for address in told]


def test_m11_a_name_is_shown_decoded_once() -> None:
    """Also where absence is to be proven: a VM that cannot be read is known by its name alone."""
    stored = {"a%2fb": "a/b", "back%5cslash": "back\\slash", "100%252f": "100%2f", "50%": "50%"}
    assert [Machine(Ref("VirtualMachine", "vm-1"), {"name": one}).name for one in stored] == [
        *stored.values()
    ]
