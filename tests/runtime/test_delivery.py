"""The one decision about a delivery."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_functions.runtime.delivery import (
    Bury,
    Case,
    Dead,
    Done,
    Leave,
    Outcome,
    Retry,
    Trouble,
    Wait,
    decide,
)
from vsphere_functions.runtime.delivery_table import delivery_table
from vsphere_functions.runtime.settings import Limits

LIMITS = Limits()
SOON = (Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.UNAVAILABLE)
RETRYABLE = (*SOON, Code.RESOURCE_EXHAUSTED)
FINAL = tuple(code for code in Code if code not in RETRYABLE)
JITTER = st.floats(0, 1, exclude_max=True)


def delay(outcome: Outcome, **known: float) -> float:
    """The pause until the next delivery, which no try is counted for."""
    decision = decide(outcome, Case(LIMITS, **known))  # type: ignore[arg-type]  # only the numbers of a case
    assert isinstance(decision, Retry)
    assert not decision.counts
    return decision.delay


@given(st.sampled_from(Code), st.integers(1, 9))
def test_what_only_reads_is_answered_at_once_whatever_the_code(code: Code, attempt: int) -> None:
    assert decide(code, Case(LIMITS, attempt=attempt, changes=False)) == Done()


@given(st.sampled_from(FINAL), st.integers(1, 9))
def test_a_final_code_is_done(code: Code, attempt: int) -> None:
    assert decide(code, Case(LIMITS, attempt=attempt)) == Done()


@given(st.sampled_from(RETRYABLE), st.integers(1, 4), JITTER)
def test_a_passing_failure_is_tried_again_and_counted(code: Code, attempt: int, jitter: float) -> None:
    decision = decide(code, Case(LIMITS, attempt=attempt, jitter=jitter))
    assert isinstance(decision, Retry)
    assert decision.counts
    first, growth = (60, 2) if code is Code.RESOURCE_EXHAUSTED else (2, 4)
    assert 0.8 <= decision.delay / (first * growth ** (attempt - 1)) <= 1.2


@given(st.sampled_from(RETRYABLE), st.integers(5, 9))
def test_the_last_try_that_fails_in_passing_is_given_up(code: Code, attempt: int) -> None:
    assert decide(code, Case(LIMITS, attempt=attempt)) == Dead()


@given(st.sampled_from(RETRYABLE), st.integers(1, 9), st.floats(-9, 999), JITTER)
def test_no_try_is_put_off_beyond_the_expirytime(
    code: Code, attempt: int, left: float, jitter: float
) -> None:
    """It ends with what happened; a dead letter of it could not be sent again."""
    decision = decide(code, Case(LIMITS, attempt=attempt, left=left, jitter=jitter))
    endless = decide(code, Case(LIMITS, attempt=attempt, jitter=jitter))
    if isinstance(endless, Retry) and endless.delay >= left:
        assert decision == Done()
    elif isinstance(decision, Retry):
        assert decision == endless
        assert decision.delay < left


@given(st.floats(0, 3599), JITTER)
def test_waiting_for_a_machine_is_no_try_and_looks_again_soon_then_seldom(
    waited: float, jitter: float
) -> None:
    assert 0.4 <= delay(Wait.BUSY, waited=waited, jitter=jitter) <= 18


@given(st.floats(0, 9e5), st.integers(0, 9999), JITTER)
def test_a_slot_is_looked_for_soon_by_the_oldest_and_later_by_those_behind(
    waited: float, ahead: int, jitter: float
) -> None:
    seconds = delay(Wait.FULL, waited=waited, ahead=ahead, jitter=jitter)
    assert LIMITS.retry_seconds / 16 < seconds <= 6 * LIMITS.retry_seconds
    assert delay(Wait.FULL, waited=waited + 100, ahead=ahead, jitter=jitter) >= seconds
    assert delay(Wait.FULL, waited=waited, ahead=ahead + 1, jitter=jitter) >= seconds


@given(st.sampled_from([Wait.BUSY, Wait.FULL]), st.floats(0, 3599), st.floats(-99, 99))
def test_who_waits_comes_back_when_it_expires(wait: Wait, waited: float, left: float) -> None:
    assert delay(wait, waited=waited, left=left) == min(delay(wait, waited=waited), max(left, 0))


def test_waiting_for_a_machine_ends_with_its_limit_and_for_a_slot_never() -> None:
    assert decide(Wait.BUSY, Case(LIMITS, waited=3600)) == Dead()
    assert delay(Wait.FULL, waited=10**7) > 0


def test_a_shutdown_is_no_try_and_hands_over_at_once() -> None:
    assert decide(Wait.SHUTDOWN, Case(LIMITS, attempt=5)) == Retry(0, counts=False)


@pytest.mark.parametrize("code", SOON)
def test_five_tries_outlast_an_outage_of_two_minutes(code: Code) -> None:
    delays = [decide(code, Case(LIMITS, attempt=n, jitter=0)) for n in range(1, 5)]
    assert sum(one.delay for one in delays if isinstance(one, Retry)) > 120


@given(st.booleans(), st.integers(1, 9))
def test_what_is_not_tried_at_all(changes: bool, attempt: int) -> None:
    case = Case(LIMITS, changes=changes, attempt=attempt)
    assert decide(Trouble.REFUSED, case) == Done()
    assert decide(Trouble.MISADDRESSED, case) == Dead()
    assert decide(Trouble.UNREADABLE, case) == decide(Trouble.FOREIGN, case) == Bury()
    assert decide(Trouble.TAKEN_OVER, case) == Leave()
    assert delay(Trouble.NO_RECORDS, attempt=attempt) == 1
    assert decide(Trouble.UNEXPECTED, case) == (Leave() if attempt < 5 else Bury())


def test_the_documentation_shows_every_outcome_and_is_made_of_these_decisions() -> None:
    table = delivery_table()
    text = (Path(__file__).parents[2] / "docs" / "reference" / "delivery.md").read_text("utf-8")
    assert table in text
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    shown = [name for row in rows for name in row[0].removeprefix("| ").split(", ")]
    for outcome in (*Code, *Wait, *Trouble):
        assert outcome.value in shown or any(outcome.value == row[0].removeprefix("| ") for row in rows)
