"""The one decision about a try that has ended: finished, again later, or given up."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from vsphere_events.code import Code
from vsphere_functions.runtime.settings import Limits


class Wait(Enum):
    """Why a try did not begin, or was cut short through no fault of its own."""

    BUSY = "another request holds the machine or volume"
    SHUTDOWN = "the worker is shutting down"


@dataclass(frozen=True, slots=True)
class Done:
    """The result is final: store it, publish it, acknowledge."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The last try failed in passing, or waited too long: as Done, and a dead letter beside."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver again after `delay` seconds; `counts` is false for what was no try."""

    delay: float
    counts: bool


Decision: TypeAlias = Done | Dead | Retry

_GROWTH = 4  # 2, 8, 32, 128 s: five tries outlast an outage of minutes
_LONGEST_WAIT = 15.0


def decide(
    outcome: Code | Wait,
    *,
    attempt: int,
    changes: bool,
    limits: Limits,
    waited: float = 0,
    jitter: float = 0.5,
) -> Decision:
    """Decide; `attempt` counts from 1, `waited` is seconds since the request was published, `jitter` in [0, 1).

    | outcome                                   | reads | changes, tries left  | changes, last try |
    |-------------------------------------------|-------|----------------------|-------------------|
    | OK                                        | Done  | Done                 | Done              |
    | Unknown DeadlineExceeded Aborted          | Done  | Retry 2, 8, 32 … s   | Dead              |
    | Unavailable                               |       |                      |                   |
    | ResourceExhausted                         | Done  | Retry 1, 2, 4 … min  | Dead              |
    | any other code                            | Done  | Done                 | Done              |
    | busy, waited less than limits.busy_seconds| -     | Retry, not counted   | Retry, not counted|
    | busy, waited longer                       | -     | Dead                 | Dead              |
    | shutdown                                  | -     | Retry at once, not counted                |

    Delays are spread by ± 20 %, so that what failed together does not come back together.
    """
    if outcome is Wait.SHUTDOWN:
        return Retry(0, counts=False)
    if outcome is Wait.BUSY:
        return Dead() if waited >= limits.busy_seconds else Retry(_wait(waited, limits, jitter), counts=False)
    if not changes or not outcome.retryable:
        return Done()
    if attempt >= limits.attempts:
        return Dead()
    return Retry(_pause(outcome, attempt, limits) * _spread(jitter), counts=True)


def _pause(code: Code, attempt: int, limits: Limits) -> float:
    if code is Code.RESOURCE_EXHAUSTED:
        return float(limits.exhausted_seconds * 2 ** (attempt - 1))
    return float(limits.retry_seconds * _GROWTH ** (attempt - 1))


def _wait(waited: float, limits: Limits, jitter: float) -> float:
    """Look again after a quarter of the time waited so far: soon at first, seldom later."""
    return min(max(waited / 4, limits.retry_seconds / 4), _LONGEST_WAIT) * _spread(jitter)


def _spread(jitter: float) -> float:
    return 0.8 + 0.4 * jitter
