"""Who a machine is: identity known before the clone is asked for, and the mark that says it is ours."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Self
from uuid import UUID, uuid5

MARK = "vspherefunctions.mark"
BORN = "vspherefunctions.born"
DETACHED = "vspherefunctions.detached"

_READY = "ready"
_NAMESPACE = UUID("5c0a51f2-83a4-4c6f-9f6d-0d9f6a4d1c27")
"""Fixed for ever: with another one, no machine would be found again."""


def instance_uuid(owner: str, machine: str) -> str:
    """Return the vCenter-wide identity of the owner's machine of that name (a version 5 UUID)."""
    return str(uuid5(_NAMESPACE, json.dumps([owner, machine], ensure_ascii=False)))


@dataclass(frozen=True, slots=True)
class Mark:
    """The ownership mark, one JSON value in extraConfig, where a guest cannot write.

    `incarnation` is the BIOS uuid that the clone was asked for, `uuid` the one the server gave. vCenter's own
    clones and restores copy the mark, so it says "ours" only together with one recorded uuid that is the VM's own.
    `phase` is `ready` once the create got to its end: a machine that is off then was stopped, not half built.
    `maker` is the request that had it cloned, as long as no other has gone on with it: its cancel undoes it.
    """

    owner: str
    machine: str
    instance_uuid: str
    uuid: str
    incarnation: str
    digest: str
    region: str | None = None
    placement: str | None = None
    phase: str | None = None
    maker: str | None = None

    @classmethod
    def parse(cls, text: Any) -> Self | None:
        """Read a mark; whatever is not one is None."""
        try:
            told = json.loads(text)
            return cls(**told) if all(isinstance(one, str | None) for one in told.values()) else None
        except (TypeError, ValueError, AttributeError, RecursionError):
            return None

    def __str__(self) -> str:
        told = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(told, separators=(",", ":"), ensure_ascii=False)

    def is_of(self, uuid: str | None, instance_uuid: str | None) -> bool:
        """Say whether the VM with these uuids is the marked one and no copy of it."""
        return (uuid or "").lower() in {self.uuid, self.incarnation} or instance_uuid == self.instance_uuid

    def given(self, uuid: str | None) -> Self:
        """Return the mark with the BIOS uuid that the server gave; the incarnation stays the one asked for."""
        return replace(self, uuid=uuid or self.uuid)

    def taken_on_by(self, maker: str) -> Self:
        """Return the mark of a machine that a request goes on with: nobody else's to undo any more."""
        return self if self.maker == maker else replace(self, maker=None)

    def finished(self) -> Self:
        """Return the mark of a machine whose create got to its end."""
        return replace(self, phase=_READY)

    @property
    def ready(self) -> bool:
        """Whether the create got to its end once."""
        return self.phase == _READY
