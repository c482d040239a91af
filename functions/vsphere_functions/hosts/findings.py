"""What `doctor` has found, part by part."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How bad it is: fine, to be seen to before long, or in the way of requests."""

    FINE = "fine"
    WARNING = "warning"
    FAULT = "fault"


class Finding(NamedTuple):
    """What holds of a part, and what to do about it unless it is fine."""

    part: str
    severity: Severity
    says: str
    do: str = ""


def fine(part: str, says: str) -> Finding:
    """Say that a part is as it should be."""
    return Finding(part, Severity.FINE, says)


def warning(part: str, says: str, do: str) -> Finding:
    """Say what should be seen to before long."""
    return Finding(part, Severity.WARNING, says, do)


def fault(part: str, says: str, do: str) -> Finding:
    """Say what is in the way of requests."""
    return Finding(part, Severity.FAULT, says, do)


def worst(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity among them."""
    return max((one.severity for one in findings), key=list(Severity).index, default=Severity.FINE)


TOLERATED, TOO_MUCH = 2.0, 60.0
"""Seconds that clocks may differ; from the second on, requests expire by the wrong clock."""


def clock(part: str, theirs: datetime, before: datetime, after: datetime) -> Finding:
    """Compare a server's clock with ours, which said `before` when it was asked and `after` when it had answered.

    Only what the time on the way cannot explain counts.
    """
    ahead = max((theirs - after).total_seconds(), (before - theirs).total_seconds(), 0.0)
    if ahead <= TOLERATED:
        return fine(part, f"its clock and ours agree within {TOLERATED:g} s")
    says = f"its clock and ours differ by {ahead:.0f} s"
    do = "synchronise both with NTP; `expirytime` is judged by the clock of the worker"
    return (fault if ahead > TOO_MUCH else warning)(part, says, do)


def now() -> datetime:
    """Return the time here."""
    return datetime.now(UTC)
