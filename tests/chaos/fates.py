"""What may stand of a machine or volume after all its results; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vsphere_events.code import Code

MAKES = {"create_machine", "create_volume", "copy_volume"}
UNMAKES = {"delete_machine", "destroy_volume"}


@dataclass(frozen=True, slots=True)
class Op:
    """An ended request that makes or unmakes a thing: its place in the stream, its code, and who came of it.

    `wished`: somebody has asked to cancel it.
    """

    sequence: int
    function: str
    code: Code
    identity: str | None = None
    wished: bool = False
    message: str = ""

    @property
    def touched_nothing(self) -> bool:
        """Whether it has left all as it was; a removal that is canceled may have come too far for that."""
        if self.code is Code.CANCELED:
            return self.function in MAKES or not self.wished
        return self.code in {Code.FAILED_PRECONDITION, Code.ALREADY_EXISTS} or (
            self.code is Code.NOT_FOUND and self.function == "copy_volume"
        )


@dataclass(frozen=True, slots=True)
class Fate:
    """Whether a thing may stand, and may be gone; `identity` is whose it has to be when that is known."""

    may_stand: bool
    may_be_gone: bool
    identity: str | None = None


GONE = Fate(may_stand=False, may_be_gone=True)


def fate_of(ops: Iterable[Op]) -> Fate:
    """Follow a thing through its requests in their order.

    A success decides. One that was refused because of order, or before anything was touched, changes nothing; any
    other failure may have changed all or nothing.
    """
    fate = GONE
    for op in sorted(ops, key=lambda one: one.sequence):
        if op.code is Code.OK:
            makes = op.function in MAKES
            fate = Fate(may_stand=makes, may_be_gone=not makes, identity=op.identity if makes else None)
        elif op.code is Code.CANCELED and op.function in MAKES and not op.wished:
            fate = replace(
                fate, may_stand=True
            )  # what was whole already is left to the removal that overtook it
        elif not op.touched_nothing:
            known = None if op.function in MAKES and fate.may_be_gone else fate.identity
            stands = fate.may_stand or op.function in MAKES
            fate = Fate(
                may_stand=stands, may_be_gone=fate.may_be_gone or op.function in UNMAKES, identity=known
            )
    return fate


def contradictions(ops: Iterable[Op]) -> list[str]:
    """Name the results of a thing that cannot all be true, whatever ran when."""
    ordered, odd = sorted(ops, key=lambda one: one.sequence), []
    gone: set[str | None] = set()
    for at, op in enumerate(ordered):
        unmade_later = any(one.function in UNMAKES for one in ordered[at + 1 :])
        if op.code is Code.CANCELED and not op.wished and not (op.function in MAKES and unmade_later):
            odd.append(f"{op.function} {op.sequence} was canceled, and nothing later unmakes it")
        if op.code is Code.OK and op.function in UNMAKES:
            gone |= {one.identity for one in ordered[:at]} - {None}
        if op.code is Code.OK and op.identity in gone:
            odd.append(f"{op.function} {op.sequence} gave {op.identity}, which was unmade before")
    return odd
