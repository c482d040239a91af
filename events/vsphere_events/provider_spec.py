"""The provider spec: Gardener's field names, with what is checked before anything is called."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from vsphere_events.error import CallError
from vsphere_events.hardware import Allocation, DataDisk, SystemDisk, whole_pages, zero_is_absent
from vsphere_events.machine_volume import MOST_VOLUMES, MachineVolume, mounts
from vsphere_events.model import Bool, Int, Model, Name, OptionalName, Text, plain
from vsphere_events.networks import Network, doubles
from vsphere_events.owner import Owner, owner_of
from vsphere_events.provider_id import LONGEST_REGION

DATASTORES = ("datastore", "datastore_cluster")
COMPUTES = ("compute_cluster", "resource_pool", "host_system")
MOST_TAGS = 50
"""Each becomes a custom attribute of the whole vCenter, of which it takes a few hundred."""

IGNITION_GUESTS = ("coreos64Guest", "other4xLinux64Guest")
"""Guests that boot from Ignition unless `bootstrap` says otherwise, as in Gardener."""

_OURS = ("vspherefunctions.", "guestinfo.userdata", "guestinfo.metadata", "guestinfo.ignition.config.")


_HOSTS = re.compile(
    r"(.*\.)?(filename|devicename|devicetype|networkname|workingdir|dir)"
    r"|remotedisplay\..*|pcipassthru\d+\..*|ethernet\d+\.(address|addresstype|generatedaddress|dvs\..*)"
)
"""Options, in lower case, that say which files, devices and networks of its host a VM has."""


def _region(region: str | None) -> str | None:
    if region and ("/" in region or any(char.isspace() for char in region)):
        raise ValueError("has a slash or white space, which a providerID cannot carry")
    if region and len(region) > LONGEST_REGION:
        raise ValueError(f"is longer than the {LONGEST_REGION} characters that a providerID can carry")
    return region


def _extra_key(key: str) -> str:
    """Refuse the keys that the bundle itself writes, and those that lead to what others have.

    vSphere compares them without regard to case. What stands under `guestinfo.` is for the guest alone.
    """
    name = plain(key).casefold()
    if name.startswith(_OURS):
        raise ValueError("this key belongs to vsphere-functions")
    if not name.startswith("guestinfo.") and _HOSTS.fullmatch(name):
        raise ValueError(
            "this key names a file or a device of the host, which the spec says by fields of its own"
        )
    return key


def _ssh_key(key: str) -> str:
    """Take one public key of an authorized_keys file, without the white space around it."""
    key = plain(key.strip())
    if len(key.split()) < 2:
        raise ValueError("should be a public key, such as `ssh-ed25519 AAAA… name`")
    return key


class VApp(Model):
    """Explicit vApp properties, in place of the generated ones."""

    properties: dict[Name, Text]


class ProviderSpec(Model):
    """What delete, status and list need: the tags; every other field of a create may stand beside them.

    `memory` is in MiB. An empty string, and 0 for a size, mean the same as leaving the field out.
    """

    tags: Annotated[dict[Name, Text], Field(max_length=MOST_TAGS)]
    region: Annotated[OptionalName, AfterValidator(_region)] = None
    datacenter: OptionalName = None
    datastore_cluster: OptionalName = None
    datastore: OptionalName = None
    compute_cluster: OptionalName = None
    resource_pool: OptionalName = None
    host_system: OptionalName = None
    folder: OptionalName = None
    num_cpus: Annotated[Int | None, Field(ge=0, le=768), AfterValidator(zero_is_absent)] = None
    memory: Annotated[Int | None, Field(ge=0, le=25165824), AfterValidator(whole_pages)] = None
    cores_per_socket: Annotated[Int | None, Field(ge=0, le=768), AfterValidator(zero_is_absent)] = None
    cpu_allocation: Allocation | None = None
    memory_allocation: Allocation | None = None
    memory_reservation_locked_to_max: Bool | None = None
    system_disk: SystemDisk | None = None
    disks: Annotated[tuple[DataDisk, ...], Field(max_length=59)] = ()
    extra_config: dict[Annotated[Name, AfterValidator(_extra_key)], Text] = Field(default_factory=dict)
    network: OptionalName = None
    switch_uuid: OptionalName = None
    networks: Annotated[tuple[Network, ...], Field(max_length=10)] = ()
    template_vm: OptionalName = None
    guest_id: OptionalName = None
    vapp: VApp | None = None
    force: Bool = False
    wait_for_ip: Bool = False
    wait_for_ip_seconds: Annotated[Int, Field(ge=1, le=3600)] = 300
    bootstrap: Annotated[
        Literal["cloud-init", "ignition", "none"] | None, BeforeValidator(lambda given: given or None)
    ] = None
    customization: OptionalName = None
    ssh_keys: Annotated[tuple[Annotated[str, AfterValidator(_ssh_key)], ...], Field(max_length=100)] = ()
    volumes: Annotated[tuple[MachineVolume, ...], Field(max_length=MOST_VOLUMES)] = ()

    @field_validator("tags")
    @classmethod
    def _owned(cls, tags: dict[str, str]) -> dict[str, str]:
        try:
            owner_of(tags)
        except CallError as error:
            raise ValueError(error.message) from None
        return tags

    @property
    def owner(self) -> Owner:
        """The cluster and role that the tags name."""
        return owner_of(self.tags)


class CreateSpec(ProviderSpec):
    """What a create needs: a template, a network, a datastore and one place to run."""

    template_vm: Name

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand a datastore, a place to run, and what fits together; see the rules below."""
        for rule in RULES:
            yield from rule(given)

    @property
    def cards(self) -> tuple[Network, ...]:
        """The machine's network cards, however the spec names them."""
        return self.networks or (Network(name=self.network or "", switch_uuid=self.switch_uuid),)

    @property
    def boots_by(self) -> str:
        """How the guest gets its bootstrap data: as the spec says, else as its guestId does."""
        return self.bootstrap or ("ignition" if self.guest_id in IGNITION_GUESTS else "cloud-init")


def _places(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Several datastores or places of one kind narrow each other, as in Gardener."""
    if not any(given[name] for name in DATASTORES):
        yield "datastore", "give one of datastore and datastoreCluster"
    if not any(given[name] for name in COMPUTES):
        yield "computeCluster", "give one of computeCluster, resourcePool and hostSystem"


def _cards(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if bool(given["network"]) == bool(given["networks"]):
        yield "network", "give exactly one of network and networks"
    if given["networks"] and given["switch_uuid"]:
        yield "switchUuid", "belongs to network; each of networks has its own"
    yield from doubles(given["networks"])


def _sizes(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cpus, cores = (_number(given[name]) for name in ("num_cpus", "cores_per_socket"))
    if cpus and cores and cpus % cores:
        yield "coresPerSocket", f"does not divide the {cpus} CPUs"
    kept = given["memory_allocation"]
    kept = kept if isinstance(kept, Mapping) else {}
    memory, reserved, limit = map(_number, (given["memory"], kept.get("reservation"), kept.get("limit")))
    if memory and reserved and reserved > memory:
        yield "memoryAllocation.reservation", f"is more than the {memory} MiB of memory"
    if given["memory_reservation_locked_to_max"] is True and memory and limit and 0 < limit < memory:
        yield "memoryAllocation.limit", "is below the memory, all of which is reserved"


def _boot(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Refuse what would have no way into the guest."""
    if given["bootstrap"] != "none":
        return
    if given["ssh_keys"]:
        yield "sshKeys", "cannot reach the guest with bootstrap none"
    networks = given["networks"]
    for at, card in enumerate(networks if isinstance(networks, list | tuple) else ()):
        if isinstance(card, Mapping) and card.get("addresses"):
            yield f"networks.{at}.addresses", "cannot reach the guest with bootstrap none"


def _number(given: Any) -> int | None:
    return given if isinstance(given, int) and not isinstance(given, bool) else None


RULES = (_places, _cards, _sizes, _boot, mounts)
