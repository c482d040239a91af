"""What one machine's guest boots from, by the way that its spec says."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self

from vsphere_events.error import Detail
from vsphere_events.machine_volume import MachineVolume
from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.bootstrap.cloud_init import cloud_init
from vsphere_functions.bootstrap.encode import LIMIT, keyed, packed
from vsphere_functions.bootstrap.ignition import ignition
from vsphere_functions.bootstrap.network import network_config, networkd
from vsphere_functions.bootstrap.user_data import beside, keys_refused, personal, with_keys
from vsphere_functions.bootstrap.volumes import GuestVolume, boothook, mounted

_SOME_MAC = "00:50:56:00:00:00"


@dataclass(frozen=True, slots=True)
class Boot:
    """Bootstrap data of one machine: bytes in, bytes out.

    `cards` are those of which the guest is told, which is none when the spec has just the name of a network.
    `volumes` are all of the spec's; `disks` are the uuids of their disks, None until they are known.
    """

    hostname: str
    instance_id: str
    by: str
    guest: str | None
    keys: tuple[str, ...]
    cards: tuple[Network, ...]
    user_data: str | None = field(repr=False)
    volumes: tuple[MachineVolume, ...] = ()
    disks: tuple[str, ...] | None = None

    @classmethod
    def of(cls, machine: str, instance_id: str, spec: CreateSpec, user_data: str | None) -> Self:
        """Bring together what the spec and the secret say."""
        told = personal(user_data, machine) if user_data else None
        return cls(
            machine,
            instance_id,
            spec.boots_by,
            spec.guest_id,
            spec.ssh_keys,
            spec.networks,
            told,
            spec.volumes,
        )

    def mounting(self, disks: Sequence[str]) -> Self:
        """Return the same, knowing the disks of the spec's volumes: the uuid of each, in the spec's order.

        A uuid is taken as vSphere spells it: with dashes, with spaces, or as 32 digits. Volumes without a
        mountPath have a place in the row too. Without this, `guestinfo` and `properties` are ValueError when the
        spec has volumes; `wrong` can be asked before.
        """
        return replace(self, disks=tuple(disks))

    @property
    def wrong(self) -> list[Detail]:
        """All that a guest could not use: keys that cannot be added, data without a way in, or too much of it."""
        if self.by == "none":
            refused = "cannot reach the guest with bootstrap none"
            return [Detail(refused, "secrets.userData")] if self.user_data else []
        refusal = keys_refused(self.user_data, self.keys) if self.by == "cloud-init" else None
        found = [Detail(refusal, "providerSpec.sshKeys")] if refusal else []
        sizes = self._sizes([_SOME_MAC] * len(self.cards))
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
        return cloud_init(self.hostname, self.instance_id, self._with_keys(), network, self._boothook())

    def properties(self, macs: Sequence[str]) -> Mapping[str, str]:
        """Return values of the vApp properties that cloud-init's OVF datasource, or Ignition, reads.

        That datasource knows no vendor data: what it says of volumes stands beside the user data.
        """
        if self.by != "cloud-init":
            return self.guestinfo(macs)
        user_data, hook = self._with_keys(), self._boothook()
        told = {
            "hostname": self.hostname,
            "instance-id": self.instance_id,
            "public-keys": "\n".join(self.keys),
            "user-data": _encoded(beside(hook, user_data) if hook else user_data or ""),
        }
        return {name: value for name, value in told.items() if value}

    def _sizes(self, macs: Sequence[str]) -> Mapping[str, int]:
        """Return how long each value is, or about so while the disks are not known: their uuids hardly compress."""
        known = self if self.disks is not None else self.mounting(_some_disks(len(self.volumes)))
        values = {**known.guestinfo(macs), **(known.properties(macs) if self.volumes else {})}
        return {key: len(value) for key, value in values.items()}

    def _mounted(self) -> tuple[GuestVolume, ...]:
        return mounted(self.volumes, self.disks or ())

    def _boothook(self) -> str | None:
        volumes = self._mounted()
        return boothook(volumes) if volumes else None

    def _with_keys(self) -> str | None:
        return with_keys(self.user_data, self.keys)

    def _ignition(self, macs: Sequence[str]) -> str:
        pairs = enumerate(zip(self.cards, macs, strict=True))
        units = {f"10-nic{at}.network": networkd(card, mac) for at, (card, mac) in pairs}
        return ignition(self.hostname, self.keys, self.user_data, units, self.guest, self._mounted())


def _some_disks(count: int) -> list[str]:
    return [sha256(bytes([at])).hexdigest()[:32] for at in range(count)]


def _encoded(text: str) -> str:
    """Encode user data as the OVF datasource takes it, compressed when it would be too long otherwise."""
    plain = b64encode(text.encode()).decode()
    return plain if len(plain) <= LIMIT else packed(text)
