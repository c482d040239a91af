"""The one decision about a delivery: finished, again later, given up, or left alone."""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from vsphere_events.code import Code
from vsphere_functions.runtime.settings import Limits


class Wait(Enum):
    """Why a try did not begin, or was cut short through no fault of its own."""

    BUSY = "another request holds the machine or volume"
    FULL = "as many creates are in flight as the limits allow"
    SHUTDOWN = "the worker is shutting down"


class Trouble(Enum):
    """What keeps a delivery from being tried at all."""

    REFUSED = "the data are not valid, or the expirytime has passed"
    MISADDRESSED = "the event is for another function or vCenter than its subject"
    UNREADABLE = "the message is no event"
    FOREIGN = "the id was used with other content or by another source"
    TAKEN_OVER = "another worker has taken over"
    NO_RECORDS = "the records or the streams do not answer"
    UNEXPECTED = "an unexpected error in the worker"


@dataclass(frozen=True, slots=True)
class Done:
    """The result is final: store it, publish it, acknowledge."""


@dataclass(frozen=True, slots=True)
class Dead:
    """The last try failed in passing, or waited too long: as Done, and a dead letter before the result."""


@dataclass(frozen=True, slots=True)
class Bury:
    """A dead letter and no result: nobody could hear it, or nobody must; acknowledge."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Deliver again after `delay` seconds; `counts` is false for what was no try."""

    delay: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Say nothing: if nobody else does, it is delivered again after ack_wait."""


Outcome: TypeAlias = Code | Wait | Trouble
Decision: TypeAlias = Done | Dead | Bury | Retry | Leave

_GROWTH = 4  # 2, 8, 32, 128 s: five tries outlast an outage of minutes
_LONGEST_BUSY = 15.0
_AFTER_TROUBLE = 1.0
_FULL_FIRST = 1 / 8  # of limits.retry_seconds
_FULL_PATIENCE = 1 / 16  # of the time waited so far, up to limits.retry_seconds
_FULL_AHEAD = 1 / 100  # of limits.retry_seconds, for each request that is older
_FULL_LONGEST = 4  # limits.retry_seconds for those behind


@dataclass(frozen=True, slots=True)
class Case:
    """What is known of a delivery: its try, counted from 1, and whether its function changes anything.

    `waited`: seconds for which it has been busy or without a slot; `left`: seconds until its expirytime, if it has one;
    `ahead`: older requests that wait for the same slot; `jitter` in [0, 1) spreads what failed together by ± 20 %.
    """

    limits: Limits
    attempt: int = 1
    changes: bool = True
    waited: float = 0
    left: float | None = None
    ahead: int = 0
    jitter: float = 0.5

    @property
    def spread(self) -> float:
        """The factor of the jitter."""
        return 0.8 + 0.4 * self.jitter

    def before_expiry(self, delay: float) -> float:
        """Come back when it expires at the latest, so that its producer hears of that in time."""
        return delay if self.left is None else max(min(delay, self.left), 0.0)


def decide(outcome: Outcome, case: Case) -> Decision:
    """Decide what becomes of a delivery; the reference `delivery.md` shows all of it as a table.

    A passing failure whose next try would begin after the expirytime is final, and no dead letter: sent again, it would
    have expired.
    """
    if isinstance(outcome, Trouble):
        return _in_trouble(outcome, case)
    if isinstance(outcome, Wait):
        return _waiting(outcome, case)
    if not case.changes or not outcome.retryable:
        return Done()
    delay = _pause(outcome, case)
    if case.left is not None and delay >= case.left:
        return Done()
    return Retry(delay, counts=True) if case.attempt < case.limits.attempts else Dead()


def _in_trouble(trouble: Trouble, case: Case) -> Decision:
    match trouble:
        case Trouble.REFUSED:
            return Done()
        case Trouble.MISADDRESSED:
            return Dead()
        case Trouble.TAKEN_OVER:
            return Leave()
        case Trouble.NO_RECORDS:
            return Retry(_AFTER_TROUBLE * case.spread, counts=False)
        case Trouble.UNEXPECTED if case.attempt < case.limits.attempts:
            return Leave()
    return Bury()


def _waiting(wait: Wait, case: Case) -> Decision:
    if wait is Wait.SHUTDOWN:
        return Retry(0, counts=False)
    if wait is Wait.FULL:
        return Retry(case.before_expiry(_full(case)), counts=False)
    if case.waited >= case.limits.busy_seconds:
        return Dead()
    return Retry(case.before_expiry(_busy(case)), counts=False)


def _pause(code: Code, case: Case) -> float:
    limits, before = case.limits, case.attempt - 1
    exhausted = code is Code.RESOURCE_EXHAUSTED
    pause = limits.exhausted_seconds * 2**before if exhausted else limits.retry_seconds * _GROWTH**before
    return float(pause) * case.spread


def _busy(case: Case) -> float:
    """Look again after a quarter of the time waited so far: soon at first, seldom later."""
    return min(max(case.waited / 4, case.limits.retry_seconds / 4), _LONGEST_BUSY) * case.spread


def _full(case: Case) -> float:
    """Look again soon for the oldest, a little later the longer it has lasted and the more are ahead."""
    unit = case.limits.retry_seconds
    front = min(max(case.waited * _FULL_PATIENCE, unit * _FULL_FIRST), unit)
    return (front + min(case.ahead * unit * _FULL_AHEAD, unit * _FULL_LONGEST)) * case.spread
