"""From an event to a call: what is asked, of which vCenter, about what, until when."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS, Function
from vsphere_events.machine import Call as CallData
from vsphere_events.machine import CreateMachineRequest
from vsphere_events.orphan import OrphanMachine
from vsphere_events.provider_spec import ProviderSpec
from vsphere_events.request import FindOrphansRequest
from vsphere_events.results import request_hash
from vsphere_events.subjects import Kind, parse_event_type, request_token
from vsphere_events.volume import (
    AttachVolumeRequest,
    CopyVolumeRequest,
    CreateVolumeRequest,
    VolumeKey,
    VolumeRequest,
    anonymous_id,
)
from vsphere_functions.runtime.connections import credentials_of, host_for, user_data_of
from vsphere_functions.runtime.order import Role
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import key_of
from vsphere_functions.runtime.stores import stores_of
from vsphere_functions.vsphere.named_disk import DiskName
from vsphere_functions.vsphere.sessions import Credentials

_NAME = re.compile(r"[a-z_]{1,40}")
_ROLES: Mapping[str, Role] = {
    "create_machine": Role.CREATES,
    "delete_machine": Role.REMOVES,
    "shut_down_machine": Role.STOPS,
    "create_volume": Role.CREATES,
    "copy_volume": Role.CREATES,
    "destroy_volume": Role.REMOVES,
    "find_orphans": Role.SWEEPS,
}


@dataclass(frozen=True, slots=True)
class Address:
    """A request as it arrived: the event, and the function and vCenter that it was sent to."""

    function: Function
    label: str
    event: CloudEvent = field(repr=False)  # its data can hold secrets

    @property
    def token(self) -> str:
        """The request token."""
        return request_token(self.event.id)

    @property
    def key(self) -> str:
        """The key of its operation record."""
        return f"{self.label}.{self.token}"

    @property
    def expires(self) -> datetime | None:
        """When its `expirytime` has come, nothing is begun for it any more."""
        return _expiry(self.event)


@dataclass(frozen=True, slots=True)
class Call:
    """A validated request; `identities` are the keys of what it works on, the first one what it is about.

    `digest` and `identities` are empty where nothing is changed; `host` is the vCenter itself, whichever label or
    login leads there.
    """

    address: Address
    request: Any
    digest: str
    identities: tuple[str, ...]
    role: Role
    incarnation: bool
    host: str
    credentials: Credentials | None = None
    user_data: str | None = field(default=None, repr=False)

    @property
    def machine(self) -> tuple[str, str] | None:
        """The owner and name of the machine that it is about, if it is about one."""
        spec, name = getattr(self.request, "provider_spec", None), getattr(self.request, "machine_name", None)
        return (str(spec.owner), name) if name and isinstance(spec, ProviderSpec) else None

    @property
    def makes(self) -> tuple[str, str] | None:
        """The owner and name of the machine that it makes, if it makes one."""
        return self.machine if self.role is Role.CREATES else None


def check_address(address: Address) -> None:
    """Refuse an event that was sent to the wrong place: InvalidArgument, and a dead letter."""
    function, kind = parse_event_type(address.event.type)
    if kind is not Kind.REQUEST:
        raise CallError(Code.INVALID_ARGUMENT, "not a request")
    if function != address.function.name:
        message = f"a request for {function} was sent to {address.function.name}"
        raise CallError(Code.INVALID_ARGUMENT, message)
    named = address.event.extension("vcenter")
    if named not in {None, address.label}:
        raise CallError(
            Code.INVALID_ARGUMENT, f"the extension vcenter is not {address.label!r}, where it was sent"
        )


def dispatch(address: Address, settings: Settings) -> Call:
    """Validate the data; CallError with all violations, which never show what was given."""
    request = address.function.parse(address.event)
    _expiry(address.event)
    secrets, secret_ref = (
        (request.secrets, request.secret_ref) if isinstance(request, CallData) else (None, None)
    )
    host = host_for(settings, address.label, secrets, secret_ref)
    return Call(
        address=address,
        request=request,
        digest=request_hash(address.event.type, request) if address.function.changes else "",
        identities=_identities(host, request, address, settings) if address.function.changes else (),
        role=_ROLES.get(address.function.name, Role.OTHER),
        incarnation=getattr(request, "provider_id", None) is not None,
        host=host,
        credentials=credentials_of(settings, address.label, secrets, secret_ref),
        user_data=user_data_of(settings, address.label, secrets, secret_ref),
    )


def refused_digest(address: Address, error: CallError) -> str:
    """Tell refused requests apart by their data, as others; where the data are wrong, by what is wrong with them.

    Data that are no request's may hold secrets anywhere. What only the settings refuse stays the same request.
    """
    try:
        return request_hash(address.event.type, address.function.parse(address.event))
    except CallError:
        pass
    said = [address.event.type, error.message, *(f"{one.field}: {one.reason}" for one in error.details)]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def address_of(function: str, label: str, event: CloudEvent) -> Address:
    """Name a function of the contract; Unimplemented for any other."""
    if function not in FUNCTIONS:
        raise CallError(Code.UNIMPLEMENTED, no_such(function))
    return Address(FUNCTIONS[function], label, event)


def no_such(function: str) -> str:
    """Say that there is no such function, naming it when it looks like a name, and where those that there are stand."""
    named = f": {function}" if _NAME.fullmatch(function) else ""
    return f"no such function{named}; docs/reference/functions.md lists them"


def _expiry(event: CloudEvent) -> datetime | None:
    text = event.extension("expirytime")
    try:
        at = datetime.fromisoformat(text) if text else None
    except ValueError:
        at = None
    if text and (at is None or at.tzinfo is None):
        raise CallError(Code.INVALID_ARGUMENT, "expirytime should be RFC 3339, as 2026-11-29T12:00:00Z")
    return at


def _identities(host: str, request: Any, address: Address, settings: Settings) -> tuple[str, ...]:
    things = (*_things(request, address), *_disks(host, request, address, settings))
    return tuple(key_of(host, *thing) for thing in things) or (key_of("operation", address.key),)


def _things(request: Any, address: Address) -> Iterator[tuple[str, ...]]:
    """Name what a request works on: its machine, its volumes, its owner's machines."""
    spec, machine = getattr(request, "provider_spec", None), getattr(request, "machine_name", None)
    if machine and isinstance(spec, ProviderSpec):
        yield "machine", str(spec.owner), machine
    elif isinstance(spec, ProviderSpec):
        yield "owner", str(spec.owner)
    if isinstance(request, FindOrphansRequest):
        yield from _doomed(request)
    if isinstance(request, CreateVolumeRequest):
        name = request.id or anonymous_id(address.event.source, address.event.id)
        yield _volume(VolumeKey.of(address.label, request.store, name))
    elif isinstance(request, VolumeRequest) and not isinstance(request, AttachVolumeRequest):
        key = request.key(address.label)
        if isinstance(request, CopyVolumeRequest):
            yield _volume(VolumeKey.of(address.label, request.to_store or key.store, request.to_id))
        yield _volume(key)


def _disks(host: str, request: Any, address: Address, settings: Settings) -> Iterator[tuple[str, ...]]:
    """Name the disks that go to or leave a machine.

    One given by its path is the volume that the path is of, in each store that it may lie in; else the name of its
    datastore does not count, of which each datacenter can have another for the same one.
    """
    for name in _named(request, address):
        if name.key is not None:
            yield _volume(name.key)
        elif name.path is not None:
            volumes = stores_of(settings, address.label, host).volumes_at(name.path)
            yield from map(_volume, volumes) if volumes else (("disk", *name.path.parts),)


def _named(request: Any, address: Address) -> Iterator[DiskName]:
    if isinstance(request, AttachVolumeRequest):
        yield DiskName.of(request, address.label)
    if isinstance(request, CreateMachineRequest):
        for at, volume in enumerate(request.provider_spec.volumes):
            yield DiskName.of(volume, address.label, f"providerSpec.volumes.{at}.")


def _doomed(request: FindOrphansRequest) -> Iterator[tuple[str, ...]]:
    for orphan in request.delete:
        if isinstance(orphan, OrphanMachine):
            yield "machine", str(request.provider_spec.owner), orphan.machine
        else:
            yield _volume(VolumeKey(orphan.store, orphan.id))


def _volume(key: VolumeKey) -> tuple[str, ...]:
    return "volume", key.store, key.id
