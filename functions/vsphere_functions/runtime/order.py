"""Which of two requests for one machine or volume comes later: a lease excludes, it does not order."""

from enum import Enum
from typing import Self

from pydantic import BaseModel, ConfigDict

from vsphere_events.code import Code
from vsphere_events.error import CallError


class Role(Enum):
    """What a request does to the thing it is about, as far as order matters."""

    CREATES = "creates"
    REMOVES = "removes"
    STOPS = "stops"
    SWEEPS = "sweeps"
    OTHER = "other"


class Identity(BaseModel):
    """What is remembered of a machine or volume: request sequences, 0 for never.

    `creator` and `remover` are the operations of the last create and the last removal that have begun; their records
    say whether they have ended.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    begun: int = 0
    created: int = 0
    removed: int = 0
    creator: str = ""
    remover: str = ""

    def dump(self) -> bytes:
        """Render as JSON."""
        return self.model_dump_json(exclude_defaults=True).encode()

    @classmethod
    def load(cls, value: bytes | None) -> Self:
        """Read what `dump` has written; nothing for a thing not seen before."""
        return cls.model_validate_json(value) if value else cls()


def ordered(identity: Identity, role: Role, sequence: int, operation: str, *, incarnation: bool) -> Identity:
    """Let a request begin, and remember it; `incarnation`: it names one by its providerID.

    Canceled for a create older than the last removal; FailedPrecondition for a removal or shut-down older than the
    last create that names no incarnation (with one, only that one can be hit).
    """
    if role is Role.CREATES and sequence < identity.removed:
        raise CallError(Code.CANCELED, "a later request has removed it; nothing was made")
    if role in {Role.REMOVES, Role.STOPS} and sequence < identity.created and not incarnation:
        raise CallError(
            Code.FAILED_PRECONDITION,
            "a later request has created it anew; nothing was touched (providerID names the one that is meant)",
        )
    creates = role is Role.CREATES and sequence >= identity.created
    removes = role is Role.REMOVES and sequence >= identity.removed
    return Identity(
        begun=max(identity.begun, sequence),
        created=sequence if creates else identity.created,
        removed=sequence if removes else identity.removed,
        creator=operation if creates else identity.creator,
        remover=operation if removes else identity.remover,
    )
