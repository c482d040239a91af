"""Settings that `doctor` finds nothing about, and what it finds of others."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from vsphere_functions.hosts.doctor import examine
from vsphere_functions.hosts.findings import Finding, Severity
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import Settings

Servers: TypeAlias = tuple[NatsServer, SimulatedVCenter]
FINE, WARNING, FAULT = Severity
INSTALLATION = "11111111-2222-4333-8444-555555555555"


@contextmanager
def set_up(vcenter: SimulatedVCenter) -> Iterator[Servers]:
    """NATS with all that is needed, beside a vCenter."""
    with NatsServer() as server:
        setup(settings(server, vcenter))
        yield server, vcenter


def settings(
    server: NatsServer, simulated: SimulatedVCenter, /, **sections: Mapping[str, Any] | None
) -> Settings:
    """Settings that are fine, with parts of sections replaced; None takes a section or a key away."""
    given: dict[str, dict[str, Any]] = {
        "nats": {"url": server.url, "ack_wait_seconds": 2},
        "vcenter": {
            "url": simulated.url,
            "user": simulated.username,
            "password": simulated.password,
            "ca_file": str(simulated.ca_file),
        },
        "store": {"datacenter": "DC0", "path": "[we ird (1)] vols", "installation": INSTALLATION},
        "other": {},
    }
    for name, section in sections.items():
        both = {} if section is None else given[name] | dict(section)
        given[name] = {key: value for key, value in both.items() if value is not None}
    stores = {"default": given["store"], "other": given["other"]}
    return Settings.model_validate(
        {
            "nats": given["nats"] or None,
            "vcenters": {"default": given["vcenter"]},
            "stores": {name: store for name, store in stores.items() if store},
        }
    )


def bad(given: Settings) -> list[Finding]:
    """What is not fine; each of it says what to do, and nothing shows the password."""
    found = examine(given)
    assert all(bool(one.do) == (one.severity is not FINE) for one in found)
    assert "password-of-the-simulator" not in str(found)
    return [one for one in found if one.severity is not FINE]
