"""LastKnownState: what a later call may resume from, never what it has to believe."""

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Self

from vsphere_events import json_text
from vsphere_events.error import CallError

VERSION = 1
_OBJECT_ID = re.compile(r"[!-~]{1,255}")
"""What can be the id of an object; a caller can write anything there, and all tasks are read together."""


@dataclass(frozen=True, slots=True)
class State:
    """Where a call stood: phase, running task, VM reference, identity, and which vCenter said so.

    `detached` is what a delete has detached so far, to be reported even when the VM is gone by then;
    `since` is when a guest was first asked to go down (RFC 3339). Rendered as
    compact JSON with the contract's spelling; holds no secret.
    """

    phase: str
    vcenter: str
    instance_uuid: str
    vm: str | None = None
    uuid: str | None = None
    task: str | None = None
    detached: str | None = None
    since: str | None = None

    @classmethod
    def parse(cls, text: str | None, *, vcenter: str, instance_uuid: str) -> Self | None:
        """Read a state of this machine on this vCenter; anything else, of whatever shape, is None."""
        try:
            told = json_text.loads(text or "null")
        except CallError:
            return None
        if not isinstance(told, dict) or told.get("v") != VERSION:
            return None
        names = {name: _SPELLING.get(name, name) for name in cls.__slots__}
        fields = {name: told[key] for name, key in names.items() if told.get(key) is not None}
        if not all(isinstance(value, str) and value for value in fields.values()) or "phase" not in fields:
            return None
        if (fields.get("vcenter"), fields.get("instance_uuid")) != (vcenter, instance_uuid):
            return None
        if not all(_OBJECT_ID.fullmatch(fields.get(name, "-")) for name in ("task", "vm")):
            return None
        return cls(**fields)

    @classmethod
    def of(cls, told: str | None, vcenter: str, instance_uuid: str) -> Self:
        """Return the state that was told when it is of this machine on this vCenter, else a fresh one."""
        known = cls.parse(told, vcenter=vcenter, instance_uuid=instance_uuid)
        return known or cls(phase="begin", vcenter=vcenter, instance_uuid=instance_uuid)

    def at(
        self, phase: str, *, task: str | None = None, vm: str | None = None, uuid: str | None = None
    ) -> Self:
        """Return the state one phase on; a task belongs to its phase only."""
        return replace(self, phase=phase, task=task, vm=vm or self.vm, uuid=uuid or self.uuid)

    def having_detached(self, told: str | None) -> Self:
        """Return the state with the list of disks that were detached."""
        return replace(self, detached=told)

    def began(self, now: datetime) -> datetime:
        """Return when the guest was first asked: now, unless an earlier try has told."""
        try:
            return min(datetime.fromisoformat(self.since or ""), now)
        except (TypeError, ValueError):  # no date, or one without a zone
            return now

    def since_when(self, began: datetime) -> Self:
        """Return the state with the time that the guest was first asked."""
        return replace(self, since=began.isoformat(timespec="seconds"))

    def __str__(self) -> str:
        told = {_SPELLING.get(name, name): value for name, value in asdict(self).items() if value}
        return json.dumps({"v": VERSION, **told}, separators=(",", ":"))


_SPELLING = {"instance_uuid": "instanceUuid"}
