"""The claim on a volume that is being made: who makes it, since when, and what of it was there before."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Self

FILE = "claim.json"
STALE = timedelta(minutes=20)
"""Age at which a claim is taken over: a try has nine minutes by default, and the next one renews it."""
OLD = timedelta(hours=1)
"""Age from which an audit reports a claim."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One operation's hold on a volume's folder; `since` is RFC 3339.

    `found`: a disk lay there before any claim, so nobody may delete it who only meant to undo a create.
    `origin`: the uuid of the disk that is copied, empty for a volume that is made anew; `task`: the id of the task that
    copies it, for the next try, which waits for it; `vcenter`: the instance uuid of the vCenter that says so, since
    another one's task of that id is another (empty in claims that were written before it was kept).
    """

    operation: str
    capacity_kb: int
    digest: str
    since: str
    found: bool = False
    origin: str = ""
    task: str = ""
    vcenter: str = ""

    def render(self) -> bytes:
        """Write as JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def parse(cls, body: bytes) -> Self | None:
        """Read what `render` wrote; None for anything else, which holds nothing."""
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            return None
        kinds: Mapping[str, type] = {
            "operation": str,
            "capacity_kb": int,
            "digest": str,
            "since": str,
            "found": bool,
            "origin": str,
            "task": str,
            "vcenter": str,
        }
        if not isinstance(told, dict):
            return None
        told.setdefault("vcenter", "")
        if not all(isinstance(told.get(key), kind) for key, kind in kinds.items()):
            return None
        return cls(**{key: told[key] for key in kinds})

    def task_at(self, vcenter: str) -> str:
        """Return the task as that vCenter knows it; empty when it is another one's, which knows nothing of it."""
        return self.task if self.vcenter in {"", vcenter} else ""

    def age(self, now: datetime) -> timedelta:
        """Return how old it is; a date that cannot be read is as old as can be."""
        try:
            return now - datetime.fromisoformat(self.since)
        except (TypeError, ValueError):
            return timedelta.max

    def holds_against(self, operation: str, now: datetime) -> bool:
        """Say whether another operation has to wait for this one; not for one from a time to come, by a wrong clock."""
        return self.operation != operation and abs(self.age(now)) < STALE

    def makes_the_same(self, other: Self) -> bool:
        """Say whether both make the same volume, so that what the one has begun the other can end."""
        return (self.capacity_kb, self.digest, self.origin) == (
            other.capacity_kb,
            other.digest,
            other.origin,
        )

    def sparing_the_disk(self) -> Self:
        """Return the claim of one who found a disk there."""
        return replace(self, found=True)
