"""Requests and results of the functions about requests and leftovers."""

from typing import Annotated, Literal

from pydantic import Field

from vsphere_events.machine import Call, DetachedVolume, MachineName
from vsphere_events.model import Int, Model, Result, State
from vsphere_events.orphan import OrphanIdField
from vsphere_events.provider_id import ProviderIDField
from vsphere_events.provider_spec import ProviderSpec

MOST_DELETED = 100  # one request holds a lease on each of them


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
    """Find VMs of an owner that are none of `machines`, and leftovers of volumes; delete only what an answer named."""

    provider_spec: ProviderSpec
    machines: tuple[KnownMachine, ...]
    min_age_seconds: Annotated[Int, Field(ge=0)]
    delete: Annotated[tuple[OrphanIdField, ...], Field(max_length=MOST_DELETED)] = ()
    last_known_state: State | None = None


class Orphan(Model):
    """A VM, or what is left of a volume, that nobody asked for any more; `id` is what a later `delete` names."""

    id: str
    machine_name: str | None = None
    provider_id: ProviderIDField | None = None
    self_link: str | None = None
    reason: str
    age_seconds: Int | None = None


class FindOrphansResult(Result):
    """What was found, the oldest first, and the ids of what is deleted.

    `more` orphans were found than are shown. VMs in `copies` carry a copied mark, and what is in `unknown` could not be
    looked at; none of these is ever deleted.
    """

    orphans: tuple[Orphan, ...] = ()
    more: Int = 0
    deleted: tuple[str, ...] = ()
    detached_volumes: tuple[DetachedVolume, ...] = ()
    copies: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
