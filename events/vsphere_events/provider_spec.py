"""The provider spec: Gardener's field names, with what is checked before anything is called."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from vsphere_events.error import CallError
from vsphere_events.model import UNIMPLEMENTED, Bool, Int, Model, Name, OptionalName, Text, plain
from vsphere_events.owner import Owner, owner_of
from vsphere_events.provider_id import LONGEST_REGION

DATASTORES = ("datastore", "datastore_cluster")
COMPUTES = ("compute_cluster", "resource_pool", "host_system")
UNBUILT = (
    "memory_reservation_locked_to_max",
    "switch_uuid",
    "vapp",
    "force",
    "wait_for_ip",
    "customization",
    "ssh_keys",
    "volumes",
)
"""Fields that a create refuses as Unimplemented when they ask for something."""

_OURS = ("vspherefunctions.", "guestinfo.userdata", "guestinfo.metadata")


def _zero_is_absent(number: int | None) -> int | None:
    return number or None


def _whole_pages(mib: int | None) -> int | None:
    if mib and mib % 4:
        raise ValueError("should be a multiple of 4 MiB")
    return mib or None


def _region(region: str | None) -> str | None:
    if region and ("/" in region or any(char.isspace() for char in region)):
        raise ValueError("has a slash or white space, which a providerID cannot carry")
    if region and len(region) > LONGEST_REGION:
        raise ValueError(f"is longer than the {LONGEST_REGION} characters that a providerID can carry")
    return region


def _extra_key(key: str) -> str:
    """Refuse the keys that the bundle itself writes; vSphere compares them without regard to case."""
    if plain(key).casefold().startswith(_OURS):
        raise ValueError("this key belongs to vsphere-functions")
    return key


class SystemDisk(Model):
    """The first disk; `size` in GiB, not smaller than the template's (0: the template's size)."""

    size: Annotated[Int | None, Field(ge=0, le=63488), AfterValidator(_zero_is_absent)] = None


class VApp(Model):
    """Explicit vApp properties, in place of the generated ones."""

    properties: dict[Name, Text]


class MachineVolume(Model):
    """A volume to attach and mount: by id and store, by selfLink or by vmdk path."""

    id: Name | None = None
    store: Name | None = None
    self_link: Name | None = None
    vmdk_path: Name | None = None
    mount_path: Name | None = None
    filesystem: Name = "ext4"
    read_only: Bool = False

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand exactly one way to name the volume."""
        if sum(bool(given[name]) for name in ("id", "self_link", "vmdk_path")) != 1:
            yield "id", "give exactly one of id, selfLink and vmdkPath"


class ProviderSpec(Model):
    """What delete, status and list need: the tags; every other field of a create may stand beside them.

    `memory` is in MiB. An empty string, and 0 for a size, mean the same as leaving the field out.
    """

    tags: dict[Name, Text]
    region: Annotated[OptionalName, AfterValidator(_region)] = None
    datacenter: OptionalName = None
    datastore_cluster: OptionalName = None
    datastore: OptionalName = None
    compute_cluster: OptionalName = None
    resource_pool: OptionalName = None
    host_system: OptionalName = None
    folder: OptionalName = None
    num_cpus: Annotated[Int | None, Field(ge=0, le=768), AfterValidator(_zero_is_absent)] = None
    memory: Annotated[Int | None, Field(ge=0, le=25165824), AfterValidator(_whole_pages)] = None
    memory_reservation_locked_to_max: Bool | None = None
    system_disk: SystemDisk | None = None
    extra_config: dict[Annotated[Name, AfterValidator(_extra_key)], Text] = Field(default_factory=dict)
    network: OptionalName = None
    switch_uuid: OptionalName = None
    template_vm: OptionalName = None
    guest_id: OptionalName = None
    vapp: VApp | None = None
    force: Bool = False
    wait_for_ip: Bool = False
    customization: OptionalName = None
    ssh_keys: tuple[Text, ...] = ()
    volumes: tuple[MachineVolume, ...] = ()

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

    network: Name
    template_vm: Name

    @field_validator(*UNBUILT)
    @classmethod
    def _not_built(cls, value: Any) -> Any:
        if value:
            raise PydanticCustomError(UNIMPLEMENTED, "not built yet")
        return value

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand a datastore and a place to run; several of one kind narrow each other, as in Gardener."""
        if not any(given[name] for name in DATASTORES):
            yield "datastore", "give one of datastore and datastoreCluster"
        if not any(given[name] for name in COMPUTES):
            yield "computeCluster", "give one of computeCluster, resourcePool and hostSystem"


def unbuilt(spec: ProviderSpec) -> tuple[str, ...]:
    """Name the fields, in the wire's spelling, that ask for something not built yet."""
    names = (name for name in UNBUILT if getattr(spec, name))
    return tuple(ProviderSpec.model_fields[name].alias or name for name in names)
