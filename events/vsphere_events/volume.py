"""Requests and results of the volume functions."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from uuid import UUID, uuid5

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, WithJsonSchema

from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import Call, MachineName, PageSize
from vsphere_events.model import Bool, Int, Model, Name, Result, State
from vsphere_events.provider_id import ProviderIDField
from vsphere_events.provider_spec import ProviderSpec
from vsphere_events.volume_name import LINK, SelfLink, Store, VmdkPath, VolumeID

ANONYMOUS = UUID("5d1a9c0e-3f4b-5c86-9a57-0f4de2b7c8a1")
"""The namespace of the ids of anonymous volumes; fixed for ever."""

_PV_SPECS = {"anyOf": [{"type": "array", "items": {"type": ["object", "null"]}}, {"type": "string"}]}
_LARGEST = 62 * 1024**3  # KiB: vSphere's largest virtual disk, 62 TiB


def _base64(text: str) -> str:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode("ascii")
    except (binascii.Error, ValueError):
        raise ValueError("should be base64") from None


def _whole_mib(kib: int) -> int:
    return -(-kib // 1024) * 1024


def _pv_specs(value: object) -> object:
    """Read the list from its JSON text, the seed's blob."""
    if not isinstance(value, str):
        return value
    try:
        return json_text.loads(value)
    except CallError as error:
        raise ValueError(f"as a text it should be a JSON list: {error.message}") from None


Base64Text = Annotated[str, AfterValidator(_base64)]
CapacityKB = Annotated[Int, Field(ge=1, le=_LARGEST), AfterValidator(_whole_mib)]
Info = dict[Name, Base64Text]


@dataclass(frozen=True, slots=True)
class VolumeKey:
    """A volume's identity: the store's name and the id; `str()` is the subject of its events."""

    store: str
    id: str

    def __str__(self) -> str:
        return f"{self.store}/{self.id}"

    def link(self, vcenter: str) -> str:
        """Render the selfLink."""
        return f"vsphere-volume://{vcenter}/{self.store}/{self.id}"

    @classmethod
    def of(cls, vcenter: str, store: str, volume_id: str) -> Self:
        """Take a store by name or link; InvalidArgument when the link leads to another vCenter."""
        return cls(store_name(vcenter, store), volume_id)

    @classmethod
    def of_link(cls, vcenter: str, link: str) -> Self:
        """Take a selfLink; InvalidArgument when it leads to another vCenter than the request's."""
        found = LINK.fullmatch(link)
        if not found or not found[3]:
            raise CallError(Code.INVALID_ARGUMENT, "a selfLink is vsphere-volume://<vcenter>/<store>/<id>")
        return cls(store_name(vcenter, link.rpartition("/")[0]), found[3])


def store_name(vcenter: str, store: str) -> str:
    """Name a store given by name or link; InvalidArgument when the link leads to another vCenter."""
    link = LINK.fullmatch(store)
    if link and link[1] != vcenter:
        raise CallError(Code.INVALID_ARGUMENT, f"vCenter {link[1]} is not this request's, {vcenter}")
    return link[2] if link else store


def subject_of(given: Mapping[str, Any], link: object = None) -> str | None:
    """Name the volume that request data, checked or not, is about: `<store>/<id>`.

    A selfLink comes first, and a copy is about what it makes.
    """
    found = LINK.fullmatch(str(link or given.get("selfLink")))
    store, volume_id = given.get("store") or "default", given.get("id")
    if found and found[3]:
        store, volume_id = found[2], found[3]
    if "toId" in given and not link:
        store, volume_id = given.get("toStore") or store, given["toId"]
    if isinstance(store, str) and isinstance(volume_id, str):
        return str(VolumeKey(store.rpartition("/")[2], volume_id))
    return None


def anonymous_id(source: str, event_id: str) -> str:
    """Name an anonymous volume by its request, so that a redelivery makes no second one."""
    return str(uuid5(ANONYMOUS, f"{source}\n{event_id}"))


class VolumeState(StrEnum):
    """Whether a volume is whole."""

    READY = "ready"
    DEGRADED = "degraded"
    MOVED = "moved"


class Volume(Model):
    """A volume as it stands; `tag` is its id, `capacityKB` in KiB (absent when unknown).

    A disk that lies in no store has no selfLink; its tag is the name of its file.
    """

    tag: str
    datastore: str
    vmdk_path: str
    capacity_kb: Int | None = None
    info: dict[str, str] = Field(default_factory=dict)
    self_link: str | None = None
    attached_to: tuple[str, ...] = ()
    state: VolumeState = VolumeState.READY
    reason: str | None = None
    moved_to: str | None = None


class VolumeResult(Result):
    """A volume."""

    volume: Volume


class VolumeRequest(Call):
    """A volume, named by id and store or by selfLink."""

    id: VolumeID | None = None
    store: Store | None = None
    self_link: SelfLink | None = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand exactly one way to name the volume."""
        if bool(given["id"]) == bool(given["self_link"]):
            yield "id", "give either id (and store) or selfLink"
        if given["store"] and not given["id"]:
            yield "store", "goes with id"

    def key(self, vcenter: str) -> VolumeKey:
        """Name the volume within this vCenter; InvalidArgument when the request names another one."""
        if self.self_link:
            return VolumeKey.of_link(vcenter, self.self_link)
        return VolumeKey.of(vcenter, self.store or "default", self.id or "")


class CreateVolumeRequest(Call):
    """Make a volume; without `id` an anonymous one, without `capacityKB` of the store's default size (1 GiB)."""

    id: VolumeID | None = None
    store: Store = "default"
    capacity_kb: CapacityKB | None = None
    info: Info = Field(default_factory=dict)
    disk_format: Literal["thin", "thick", "eagerZeroedThick"] = "thin"
    storage_policy: Name | None = None


class CreateVolumeResult(VolumeResult):
    """The volume that stands now."""


class GetVolumeRequest(VolumeRequest):
    """Look at one volume."""


class GetVolumeResult(VolumeResult):
    """The volume as it stands."""


class DestroyVolumeRequest(VolumeRequest):
    """Destroy a volume that no VM holds."""


class DestroyVolumeResult(Result):
    """Nothing: the volume is gone."""


class ListVolumesRequest(Call):
    """List the volumes of one store, or of all of the vCenter."""

    store: Store | None = None
    page_size: PageSize = 5000
    page_token: Name | None = None
    audit: Bool = False


class ListVolumesResult(Result):
    """Whole volumes, those that are not, and stores that cannot be read now."""

    volumes: tuple[Volume, ...]
    degraded: tuple[Volume, ...] = ()
    unreachable_stores: tuple[str, ...] = ()
    next_page_token: str | None = None


class AttachVolumeRequest(VolumeRequest):
    """Attach a volume, or a disk by its vmdk path, to a machine of the owner that the tags name."""

    machine_name: MachineName
    provider_id: ProviderIDField | None = None
    provider_spec: ProviderSpec
    vmdk_path: VmdkPath | None = None
    read_only: Bool = False
    last_known_state: State | None = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand exactly one way to name the disk."""
        if sum(bool(given[name]) for name in ("id", "self_link", "vmdk_path")) != 1:
            yield "id", "give exactly one of id (and store), selfLink and vmdkPath"
        if given["store"] and not given["id"]:
            yield "store", "goes with id"


class AttachVolumeResult(Result):
    """The machine and the volume."""

    provider_id: ProviderIDField
    volume: Volume
    last_known_state: str | None = None


class DetachVolumeRequest(AttachVolumeRequest):
    """Detach a volume, or a disk by its vmdk path, from a machine."""


class DetachVolumeResult(AttachVolumeResult):
    """The machine and the volume."""


class ResizeVolumeRequest(VolumeRequest):
    """Grow a volume; `capacityKB` in KiB, rounded up to whole MiB."""

    capacity_kb: CapacityKB


class ResizeVolumeResult(VolumeResult):
    """The volume with its new size."""


class CopyVolumeRequest(VolumeRequest):
    """Copy a volume to a new id, in its own store unless `toStore` is given."""

    to_id: VolumeID
    to_store: Store | None = None


class CopyVolumeResult(VolumeResult):
    """The copy."""


class GetVolumeIdsRequest(Model):
    """Name the vSphere volumes behind PV specs, given as a list or as its JSON text; needs no session."""

    pv_spec_list: Annotated[
        tuple[dict[str, JsonValue] | None, ...], BeforeValidator(_pv_specs), WithJsonSchema(_PV_SPECS)
    ]


class GetVolumeIdsResult(Result):
    """The ids in input order, only of PVs that a vSphere volume was found for."""

    volume_ids: tuple[str, ...]
