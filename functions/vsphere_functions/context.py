"""What a function is given beside its request."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol
from uuid import uuid4

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.fence import Fence, Unfenced
from vsphere_functions.vsphere.sessions import Credentials, Lender
from vsphere_functions.vsphere.stores import Stores
from vsphere_functions.vsphere.vcenter import VCenter


class Unfinished(Protocol):
    """What the operation records know that the inventory does not show yet."""

    def creating(self, owner: str) -> frozenset[str]:
        """Return the names of the owner's machines whose create has begun and not ended."""


class NothingUnfinished:
    """The records of a process that keeps none."""

    def creating(self, owner: str) -> frozenset[str]:  # noqa: ARG002 - the protocol's signature
        """Return no name."""
        return frozenset()


class Requests(Protocol):
    """The records of requests, as far as one request may change that of another."""

    def cancel(self, source: str, event_id: str) -> str:
        """Ask a request to stop, and return the state that it was in."""


class NoRequests:
    """The records of a process that keeps none."""

    def cancel(self, source: str, event_id: str) -> str:  # noqa: ARG002 - the protocol's signature
        """Find nothing."""
        return "absent"


@dataclass(frozen=True, slots=True)
class Context:
    """Made anew for each request from what the process holds once.

    `label` names the configured vCenter; `credentials` are those the request names (secretRef, inline secrets),
    or None for the configured ones; `user_data` is the bootstrap data of the same secrets, inline ones first.
    `stores` are those of the vCenter; `operation` is a UUID that all deliveries of the request have in common, and
    so has one of the same source and id years later; `maker` is new for that one, and empty where nothing is recorded.
    """

    label: str
    sessions: Lender
    credentials: Credentials | None = None
    user_data: str | None = field(default=None, repr=False)
    fence: Fence = field(default_factory=Unfenced)
    unfinished: Unfinished = field(default_factory=NothingUnfinished)
    requests: Requests = field(default_factory=NoRequests)
    stores: Stores = field(default_factory=Stores)
    operation: str = field(default_factory=lambda: str(uuid4()))
    maker: str = field(default_factory=lambda: uuid4().hex)
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def refuse_unfinished(self, owner: str, machine: str | None) -> None:
        """Refuse to call a machine absent while a create of it has begun and not ended (Aborted)."""
        if machine is not None and machine in self.unfinished.creating(owner):
            raise CallError(Code.ABORTED, f"machine {machine!r} is being created")

    def vcenter(self) -> VCenter:
        """Return the request's vCenter; Unavailable or Unauthenticated when it cannot be had."""
        return VCenter(self.label, self.sessions.get(self.label, self.credentials), self.fence)
