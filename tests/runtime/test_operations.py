"""The rules of records: claim, replay, cancel, redrive; and of the order per machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.operations import (
    Begin,
    Claim,
    Foreign,
    GiveUp,
    Record,
    Replay,
    State,
    admit,
    canceled,
    finished,
    redriven,
    stepped,
    uncounted,
)
from vsphere_functions.runtime.order import Identity, Role, ordered

CLAIM = Claim("/p", "id", "digest", 7, "worker 1")
DEAD = CallError(Code.UNAVAILABLE, "away")
RESULT = (
    b'{"specversion": "1.0", "id": "r", "source": "/v", "type": "t", "data": {"lastKnownState": "cloned"}}'
)


def begun(record: Record | None = None, attempts: int = 5) -> Record:
    admission = admit(record, CLAIM, attempts)
    assert isinstance(admission, Begin)
    return admission.record


def refused(code: Code) -> "pytest.RaisesExc[CallError]":
    return pytest.raises(CallError, check=lambda error: error.code is code)


def test_each_claim_counts_a_try_and_a_wait_takes_it_back() -> None:
    first = begun()
    assert (first.attempts, first.sequence, first.claim) == (1, 7, "worker 1")
    assert begun(first).attempts == 2
    assert begun(uncounted(first)).attempts == 1
    assert uncounted(uncounted(first)).attempts == 0


def test_a_record_keeps_the_name_of_its_first_try_whoever_wrote_it() -> None:
    written = Record(source="/p", id="id")  # by a redrive of what nothing was known of any more
    assert begun(written).first == "worker 1"
    assert begun(begun().changed(first="worker 0")).first == "worker 0"


def test_a_claim_beyond_the_attempts_is_given_up_with_the_last_state() -> None:
    admission = admit(stepped(begun(), "state"), CLAIM, 1)
    assert isinstance(admission, GiveUp)
    assert admission.dead
    assert (admission.error.code, admission.error.last_known_state) == (Code.UNKNOWN, "state")


@pytest.mark.parametrize("dead", [None, DEAD])
def test_a_finished_record_is_replayed(dead: CallError | None) -> None:
    record = finished(stepped(begun(), "state"), b"{}", dead=dead)
    assert record.state is (State.DEAD if dead else State.DONE)
    assert record.final
    assert record.last_known_state is None
    assert record.letter_due == bool(dead), "until it is known to be written"
    assert admit(record, CLAIM, 1) == Replay(record)


@pytest.mark.parametrize(
    "claim",
    [
        Claim("/other", "id", "digest", 8, "w"),
        Claim("/p", "other", "digest", 8, "w"),
        Claim("/p", "id", "other", 8, "w"),
    ],
)
@pytest.mark.parametrize("final", [True, False])
def test_another_requests_token_is_foreign_in_any_state(claim: Claim, final: bool) -> None:
    record = finished(begun(), b"{}") if final else begun()
    assert isinstance(admit(record, claim, 5), Foreign)


def test_a_request_canceled_before_it_came_never_begins() -> None:
    record = canceled(None, "/p", "id")
    admission = admit(record, CLAIM, 5)
    assert isinstance(admission, GiveUp)
    assert (admission.error.code, admission.dead) == (Code.CANCELED, False)
    assert (admission.record.digest, admission.record.sequence) == ("digest", 7)


def test_only_an_open_request_of_its_own_source_is_canceled() -> None:
    assert canceled(begun(), "/p", "id").state is State.CANCEL_REQUESTED
    with refused(Code.FAILED_PRECONDITION):
        canceled(finished(begun(), b"{}"), "/p", "id")
    with refused(Code.NOT_FOUND):
        canceled(begun(), "/other", "id")


def test_what_is_being_undone_has_begun_however_many_tries_are_taken_back() -> None:
    record = uncounted(canceled(begun(), "/p", "id"))
    assert (record.attempts, record.begun) == (1, True)
    assert not canceled(uncounted(begun()), "/p", "id").begun
    assert isinstance(admit(record, CLAIM, 5), Begin)


def test_only_a_dead_request_is_sent_again_and_keeps_its_place() -> None:
    again = redriven(finished(begun(begun()), RESULT, dead=DEAD), 0, 12)
    assert (again.generation, again.expects, again.attempts, again.state) == (1, 12, 0, State.OPEN)
    assert (again.result, again.last_known_state, again.letter_due) == (None, "cloned", False)
    assert redriven(again, 0, 99) == again, "sent again twice is sent again once"
    for generation in (1, 2):
        with refused(Code.FAILED_PRECONDITION):
            redriven(again, generation, 12)
    with refused(Code.FAILED_PRECONDITION):
        redriven(finished(again, RESULT, dead=DEAD), 0, 12)
    later = Claim("/p", "id", "digest", 99, "w")
    admission = admit(again, later, 5)
    assert isinstance(admission, Begin)
    assert (admission.record.sequence, admission.record.attempts) == (7, 1)
    with refused(Code.FAILED_PRECONDITION):
        redriven(finished(begun(), b"{}"), 0, 12)
    with refused(Code.FAILED_PRECONDITION):
        redriven(begun(), 0, 12)


records = st.builds(
    Record,
    state=st.sampled_from(State),
    source=st.text(),
    id=st.text(),
    digest=st.none() | st.text(),
    sequence=st.none() | st.integers(0, 2**60),
    last_known_state=st.none() | st.text(),
    code=st.none() | st.sampled_from(Code),
    result=st.none() | st.binary(),
)


@given(records)
def test_a_record_comes_back_as_it_was_written(record: Record) -> None:
    assert Record.load(record.dump()) == record


def test_a_create_older_than_the_last_removal_is_canceled() -> None:
    identity = ordered(Identity(), Role.REMOVES, 5, "default.op", incarnation=False)
    with refused(Code.CANCELED):
        ordered(identity, Role.CREATES, 4, "default.op", incarnation=False)
    assert ordered(identity, Role.CREATES, 6, "default.op", incarnation=False) == Identity(
        begun=6, created=6, removed=5, creator="default.op", remover="default.op"
    )


@pytest.mark.parametrize("role", [Role.REMOVES, Role.STOPS])
def test_a_removal_or_stop_older_than_the_last_create_needs_an_incarnation(role: Role) -> None:
    identity = ordered(Identity(), Role.CREATES, 5, "default.op", incarnation=False)
    with refused(Code.FAILED_PRECONDITION):
        ordered(identity, role, 4, "default.op", incarnation=False)
    assert ordered(identity, role, 4, "default.op", incarnation=True).created == 5


@given(
    st.builds(Identity, begun=st.integers(0, 9), created=st.integers(0, 9), removed=st.integers(0, 9)),
    st.sampled_from(Role),
    st.integers(1, 9),
)
def test_what_is_remembered_only_grows_and_a_redelivery_changes_nothing(
    identity: Identity, role: Role, sequence: int
) -> None:
    assert Identity.load(identity.dump()) == identity
    try:
        after = ordered(identity, role, sequence, "default.op", incarnation=False)
    except CallError:
        return
    assert after.begun >= identity.begun
    assert after.created >= identity.created
    assert after.removed >= identity.removed
    assert ordered(after, role, sequence, "default.op", incarnation=False) == after


def test_an_identity_never_seen_is_empty() -> None:
    assert Identity.load(None) == Identity()
