"""What one machine's guest boots from, by the way that its spec says."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from vsphere_events.error import Detail
from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.bootstrap.cloud_init import cloud_init
from vsphere_functions.bootstrap.encode import LIMIT, keyed, packed
from vsphere_functions.bootstrap.ignition import ignition
from vsphere_functions.bootstrap.network import network_config, networkd
from vsphere_functions.bootstrap.user_data import keys_refused, personal, with_keys

_SOME_MAC = "00:50:56:00:00:00"


@dataclass(frozen=True, slots=True)
class Boot:
    """Bootstrap data of one machine: bytes in, bytes out.

    `cards` are those of which the guest is told, which is none when the spec has just the name of a network.
    """

    hostname: str
    instance_id: str
    by: str
    guest: str | None
    keys: tuple[str, ...]
    cards: tuple[Network, ...]
    user_data: str | None = field(repr=False)

    @classmethod
    def of(cls, machine: str, instance_id: str, spec: CreateSpec, user_data: str | None) -> Self:
        """Bring together what the spec and the secret say."""
        told = personal(user_data, machine) if user_data else None
        return cls(machine, instance_id, spec.boots_by, spec.guest_id, spec.ssh_keys, spec.networks, told)

    @property
    def wrong(self) -> list[Detail]:
        """All that a guest could not use: keys that cannot be added, data without a way in, or too much of it."""
        if self.by == "none":
            refused = "cannot reach the guest with bootstrap none"
            return [Detail(refused, "secrets.userData")] if self.user_data else []
        refusal = keys_refused(self.user_data, self.keys) if self.by == "cloud-init" else None
        found = [Detail(refusal, "providerSpec.sshKeys")] if refusal else []
        sizes = {key: len(value) for key, value in self.guestinfo([_SOME_MAC] * len(self.cards)).items()}
        raw = len((self.user_data or "").encode())
        return found + [
            Detail(
                f"{key} has {size} bytes once encoded (gzip+base64; the user data has {raw}); at most {LIMIT}",
                "secrets.userData",
            )
            for key, size in sizes.items()
            if size > LIMIT
        ]

    def guestinfo(self, macs: Sequence[str]) -> Mapping[str, str]:
        """Return guestinfo keys and values; `macs` are the addresses of the cards."""
        if self.by == "none":
            return {}
        if self.by == "ignition":
            return keyed("ignition.config.data", self._ignition(macs))
        network = network_config(self.cards, macs) if self.cards else None
        return cloud_init(self.hostname, self.instance_id, self._with_keys(), network)

    def properties(self, macs: Sequence[str]) -> Mapping[str, str]:
        """Return values of the vApp properties that cloud-init's OVF datasource, or Ignition, reads."""
        if self.by != "cloud-init":
            return self.guestinfo(macs)
        told = {
            "hostname": self.hostname,
            "instance-id": self.instance_id,
            "public-keys": "\n".join(self.keys),
            "user-data": _encoded(self._with_keys() or ""),
        }
        return {name: value for name, value in told.items() if value}

    def _with_keys(self) -> str | None:
        return with_keys(self.user_data, self.keys)

    def _ignition(self, macs: Sequence[str]) -> str:
        pairs = enumerate(zip(self.cards, macs, strict=True))
        units = {f"10-nic{at}.network": networkd(card, mac) for at, (card, mac) in pairs}
        return ignition(self.hostname, self.keys, self.user_data, units, self.guest)


def _encoded(text: str) -> str:
    """Encode user data as the OVF datasource takes it, compressed when it would be too long otherwise."""
    plain = b64encode(text.encode()).decode()
    return plain if len(plain) <= LIMIT else packed(text)
