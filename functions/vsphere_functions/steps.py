"""What a function that changes something yields: one Step after each effect."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Step:
    """An effect that has happened, and the state that a later call can resume from.

    `phase` is one lower-case word (`clone`, `power_on`); `state` is the LastKnownState text (no secrets);
    `percent` runs from 0 to 100 where it is known.
    """

    phase: str
    state: str
    message: str
    percent: int | None = None


Steps: TypeAlias = Generator[Step, None, Result]
