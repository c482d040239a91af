"""Requests and results of the functions about requests and leftovers."""

from typing import Annotated, Literal

from pydantic import Field

from vsphere_events.machine import Call, MachineName
from vsphere_events.model import Int, Model, Name, Result
from vsphere_events.provider_id import ProviderIDField
from vsphere_events.provider_spec import ProviderSpec


class CancelRequestRequest(Model):
    """Stop an earlier request, named by the source and id of its event."""

    source: Annotated[str, Field(min_length=1)]
    id: Annotated[str, Field(min_length=1)]


class CancelRequestResult(Result):
    """The state the request was in: `absent` when nothing had begun."""

    state: Literal["absent", "open", "cancelRequested", "done", "dead"]


class KnownMachine(Model):
    """A machine that the caller still wants."""

    machine_name: MachineName
    provider_id: ProviderIDField | None = None


class FindOrphansRequest(Call):
    """Find VMs of an owner that are none of `machines`; delete only those an earlier answer named."""

    provider_spec: ProviderSpec
    machines: tuple[KnownMachine, ...]
    min_age_seconds: Annotated[Int, Field(ge=0)]
    delete: tuple[Name, ...] = ()


class Orphan(Model):
    """A VM that nobody asked for any more; `id` is what a later `delete` names."""

    id: str
    machine_name: str | None = None
    provider_id: ProviderIDField | None = None
    reason: str
    age_seconds: Int | None = None


class FindOrphansResult(Result):
    """What was found, and the ids of what was deleted."""

    orphans: tuple[Orphan, ...] = ()
    deleted: tuple[str, ...] = ()
