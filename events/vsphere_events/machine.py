"""Requests and results of the machine functions."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, SecretStr

from vsphere_events.error import CallError, Detail
from vsphere_events.model import Int, Model, Name, Result, State, plain, wire_name
from vsphere_events.outcome import ErrorDetail
from vsphere_events.provider_id import ProviderIDField
from vsphere_events.provider_spec import CreateSpec, ProviderSpec

_LONGEST_NAME = 80  # characters, vSphere's limit for the name of a VM


def _no_folder(name: str) -> str:
    if name in {".", ".."}:
        raise ValueError("names a folder; the machine's own on the datastore would be that one")
    return name


def _fits(name: str) -> str:
    """Count as vSphere does, which stores `%`, `/` and a backslash as three characters each."""
    if len(name) + 2 * len(re.findall(r"[%/\\]", name)) > _LONGEST_NAME:
        raise ValueError(f"has more than {_LONGEST_NAME} characters as vSphere stores it")
    return name


def _unescaped(name: str) -> str:
    """Refuse what vSphere stores escaped: it can name no node, and the clone fails at the folder of its files."""
    if re.search(r"[%/\\]", name):
        raise ValueError(
            "has a slash, a backslash or a percent sign; use lower-case letters, digits, dashes and dots, as nodes do"
        )
    return name


MachineName = Annotated[  # at most as long as vSphere takes
    str,
    Field(min_length=1, max_length=_LONGEST_NAME),
    AfterValidator(plain),
    AfterValidator(_no_folder),
    AfterValidator(_fits),
]
NewMachineName = (
    Annotated[  # what a create takes; a VM of another name can be there, and is found and deleted
        MachineName, AfterValidator(_unescaped), Field(json_schema_extra={"pattern": r"^[^/\\%]*$"})
    ]
)
PageSize = Annotated[Int, Field(ge=1, le=5000)]  # 10,000 rows are 1 MB, the usual payload limit

_ANY_NAME = "any"
_LOGIN = ("vsphere_host", "vsphere_username", "vsphere_password")


class PowerState(StrEnum):
    """vSphere's VirtualMachinePowerState."""

    ON = "poweredOn"
    OFF = "poweredOff"
    SUSPENDED = "suspended"


class Phase(StrEnum):
    """How far a machine is."""

    CREATING = "Creating"
    RUNNING = "Running"
    STOPPED = "Stopped"
    FAILED = "Failed"
    DELETING = "Deleting"


class Address(Model):
    """An address of a machine, with Kubernetes' type of node address."""

    type: Literal["Hostname", "InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS"]
    address: str


class Secrets(Model):
    """The seed's map of secrets; host, user and password only together, `userData` also alone."""

    vsphere_host: SecretStr | None = None
    vsphere_username: SecretStr | None = None
    vsphere_password: SecretStr | None = None
    vsphere_insecure_ssl: SecretStr | None = None
    user_data: SecretStr | None = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand all parts of a login or none: configured credentials go to no host named in a request."""
        missing = [name for name in _LOGIN if not given[name]]
        if len(missing) < len(_LOGIN) or given["vsphere_insecure_ssl"]:
            for name in missing:
                yield name, "vsphereHost, vsphereUsername and vspherePassword go together"

    @property
    def insecure(self) -> bool:
        """Whether the caller asks for no TLS verification: `true` in any case, or `1`."""
        flag = self.vsphere_insecure_ssl
        return flag is not None and flag.get_secret_value().lower() in {"true", "1"}


class Call(Model):
    """What a call to a vCenter may carry: inline secrets, or the name of a configured set."""

    secrets: Secrets | None = None
    secret_ref: Name | None = None

    @property
    def user_data(self) -> str | None:
        """The bootstrap data of the request, when it is given inline."""
        data = self.secrets and self.secrets.user_data
        return data.get_secret_value() if data else None


class CreateMachineRequest(Call):
    """Make a machine of this name, or finish the one that an earlier delivery began."""

    machine_name: NewMachineName
    provider_spec: CreateSpec
    last_known_state: State | None = None


class CreateMachineResult(Result):
    """The machine that stands now."""

    provider_id: ProviderIDField
    node_name: str
    addresses: tuple[Address, ...] = ()
    last_known_state: str | None = None


class InitializeMachineRequest(CreateMachineRequest):
    """Finish a half-built machine; nothing is cloned."""


class InitializeMachineResult(CreateMachineResult):
    """The machine that stands now."""


class DeleteMachineRequest(Call):
    """Detach what the machine was not born with, then destroy it; of the spec only the tags are used."""

    machine_name: MachineName
    provider_id: ProviderIDField | None = None
    provider_spec: ProviderSpec
    last_known_state: State | None = None


class DetachedVolume(Model):
    """A disk that outlived its machine; `uuid` is the disk's."""

    vmdk_path: str
    uuid: str | None = None
    self_link: str | None = None
    fcd_id: str | None = None


class DeleteMachineResult(Result):
    """What was detached, in earlier tries too; no providerID when there was nothing to delete."""

    provider_id: ProviderIDField | None = None
    detached_volumes: tuple[DetachedVolume, ...] = ()
    last_known_state: str | None = None


class GetMachineStatusRequest(Call):
    """Look at one machine, by providerID when it is given, else by name."""

    machine_name: MachineName | None = None
    provider_id: ProviderIDField | None = None
    provider_spec: ProviderSpec
    last_known_state: State | None = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand a name or a providerID."""
        if not given["machine_name"] and not given["provider_id"]:
            yield "machineName", "give machineName or providerID"


class GetMachineStatusResult(Result):
    """How a machine is."""

    provider_id: ProviderIDField
    node_name: str
    power_state: PowerState
    phase: Phase
    addresses: tuple[Address, ...] = ()
    last_known_state: str | None = None


class ListMachinesRequest(Call):
    """List the machines of the owner that the tags name, whole or not at all."""

    provider_spec: ProviderSpec
    page_size: PageSize = 5000
    page_token: Name | None = None


class ListMachinesResult(Result):
    """`machineList` maps providerID to machine name; the other lists are VMs that a sweep must spare."""

    machine_list: dict[str, str]
    creating: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    next_page_token: str | None = None


class ShutDownMachineRequest(DeleteMachineRequest):
    """Stop a machine: `soft` asks the guest, `hard` cuts the power, `trySoft` does one, then the other."""

    mode: Literal["soft", "trySoft", "hard"] = "trySoft"
    timeout_seconds: Annotated[Int, Field(ge=1, le=86400)] = 300


class ShutDownMachineResult(Result):
    """The machine and its power state now."""

    provider_id: ProviderIDField
    power_state: PowerState
    last_known_state: str | None = None


class ValidateMachineRequest(Call):
    """A create that is only checked, so name and spec may be wrong in any way."""

    machine_name: str
    provider_spec: dict[str, JsonValue]
    last_known_state: State | None = None

    def violations(self) -> tuple[Detail, ...]:
        """List what a create of this would be refused for before vSphere is asked."""
        data = {"machineName": self.machine_name, "providerSpec": self.provider_spec}
        try:
            CreateMachineRequest.parse(data)
        except CallError as error:
            return error.details
        return ()

    def rest(self) -> CreateMachineRequest | None:
        """Return the create without the fields that are wrong by themselves; None when too much is missing.

        So that the names in the other fields can be looked up at the same time.
        """
        named = {part for detail in self.violations() for part in (detail.field or "").split(".")[1:2]}
        sound = set(map(wire_name, CreateSpec.model_fields)) - named
        spec = {name: value for name, value in self.provider_spec.items() if name in sound}
        try:
            return CreateMachineRequest.parse({"machineName": _ANY_NAME, "providerSpec": spec})
        except CallError:
            return None


class MissingPrivilege(Model):
    """A vSphere privilege that the session lacks on an object."""

    privilege: str
    object: str


class ValidateMachineResult(Result):
    """What a create would be refused for; empty lists when it would go ahead."""

    violations: tuple[ErrorDetail, ...] = ()
    missing_privileges: tuple[MissingPrivilege, ...] = ()
