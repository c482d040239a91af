"""The guard that every mutating vSphere call passes."""

from typing import Protocol


class Fence(Protocol):
    """What a request may still change things under: its lease.

    A worker that was stopped for a while must not go on changing what another has taken over meanwhile.
    """

    def check(self) -> None:
        """Refuse with Aborted unless the lease was renewed recently enough (no I/O)."""

    def confirm(self) -> None:
        """Ask the holder of leases whether this one still stands; Aborted when it is lost."""


class Unfenced:
    """The fence of a call that shares its machines with nobody (a lone process, a test)."""

    def check(self) -> None:
        """Let everything pass."""

    def confirm(self) -> None:
        """Let everything pass."""
