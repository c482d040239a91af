"""The one decision about a try that has ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_functions.runtime.delivery import Dead, Done, Retry, Wait, decide
from vsphere_functions.runtime.settings import Limits

LIMITS = Limits()
SOON = (Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.UNAVAILABLE)
RETRYABLE = (*SOON, Code.RESOURCE_EXHAUSTED)
FINAL = tuple(code for code in Code if code not in RETRYABLE)


@given(st.sampled_from(Code), st.integers(1, 9))
def test_what_only_reads_is_answered_at_once_whatever_the_code(code: Code, attempt: int) -> None:
    assert decide(code, attempt=attempt, changes=False, limits=LIMITS) == Done()


@given(st.sampled_from(FINAL), st.integers(1, 9))
def test_a_final_code_is_done(code: Code, attempt: int) -> None:
    assert decide(code, attempt=attempt, changes=True, limits=LIMITS) == Done()


@given(st.sampled_from(RETRYABLE), st.integers(1, 4), st.floats(0, 1, exclude_max=True))
def test_a_passing_failure_is_tried_again_and_counted(code: Code, attempt: int, jitter: float) -> None:
    decision = decide(code, attempt=attempt, changes=True, limits=LIMITS, jitter=jitter)
    assert isinstance(decision, Retry)
    assert decision.counts
    first, growth = (60, 2) if code is Code.RESOURCE_EXHAUSTED else (2, 4)
    assert 0.8 <= decision.delay / (first * growth ** (attempt - 1)) <= 1.2


@given(st.sampled_from(RETRYABLE), st.integers(5, 9))
def test_the_last_try_that_fails_in_passing_is_given_up(code: Code, attempt: int) -> None:
    assert decide(code, attempt=attempt, changes=True, limits=LIMITS) == Dead()


@given(st.floats(0, 3599), st.floats(0, 1, exclude_max=True))
def test_waiting_for_a_machine_is_no_try_and_looks_again_soon_then_seldom(
    waited: float, jitter: float
) -> None:
    decision = decide(Wait.BUSY, attempt=1, changes=True, limits=LIMITS, waited=waited, jitter=jitter)
    assert isinstance(decision, Retry)
    assert not decision.counts
    assert 0.4 <= decision.delay <= 18


def test_waiting_ends_with_its_limit() -> None:
    assert decide(Wait.BUSY, attempt=1, changes=True, limits=LIMITS, waited=3600) == Dead()


def test_a_shutdown_is_no_try_and_hands_over_at_once() -> None:
    assert decide(Wait.SHUTDOWN, attempt=5, changes=True, limits=LIMITS) == Retry(0, counts=False)


@pytest.mark.parametrize("code", SOON)
def test_five_tries_outlast_an_outage_of_two_minutes(code: Code) -> None:
    delays = [decide(code, attempt=n, changes=True, limits=LIMITS, jitter=0) for n in range(1, 5)]
    assert sum(one.delay for one in delays if isinstance(one, Retry)) > 120
