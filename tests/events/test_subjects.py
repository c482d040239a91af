"""Subjects, event types and tokens."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events import subjects
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Channel, Kind, Subject, event_type, parse_event_type, request_token

VCENTERS = st.from_regex(r"[a-z0-9][a-z0-9-]{0,62}", fullmatch=True)
TOKENS = st.from_regex(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,63}", fullmatch=True)


@given(VCENTERS, st.sampled_from(sorted(FUNCTIONS)), TOKENS)
def test_every_subject_is_read_as_it_was_built(vcenter: str, function: str, token: str) -> None:
    for text, subject in {
        subjects.request_subject(vcenter, function): Subject(Channel.REQUEST, vcenter, function),
        subjects.dead_subject(vcenter, function): Subject(Channel.DEAD, vcenter, function),
        subjects.call_subject(vcenter, function): Subject(Channel.CALL, vcenter, function),
        subjects.queue_subject(vcenter, function): Subject(Channel.PROGRESS, vcenter, function, "_queue"),
        subjects.result_subject(vcenter, function, token): Subject(Channel.RESULT, vcenter, function, token),
        subjects.progress_subject(vcenter, function, token): Subject(
            Channel.PROGRESS, vcenter, function, token
        ),
    }.items():
        assert Subject.parse(text) == subject
        assert str(subject) == text


def test_the_names_are_those_of_the_contract() -> None:
    assert subjects.request_subject("default", "create_machine") == "vsphere.request.default.create_machine"
    assert subjects.result_subject("default", "create_machine", "req-1") == (
        "vsphere.result.default.create_machine.req-1"
    )
    assert subjects.queue_subject("b", "get_volume") == "vsphere.progress.b.get_volume._queue"
    assert subjects.call_subject("b", "get_volume") == "vsphere.call.b.get_volume"
    assert subjects.dead_subject("b", "get_volume") == "vsphere.dead.b.get_volume"
    assert subjects.source_of("b") == "/vsphere-functions/b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vsphere",
        "vsphere.request.default",
        "vsphere.request.default.create_machine.token",
        "vsphere.result.default.create_machine",
        "vsphere.result.default.create_machine._queue",
        "vsphere.result.default.create_machine.a.b",
        "vsphere.progress.default.create_machine._other",
        "vsphere.fly.default.create_machine",
        "other.request.default.create_machine",
        "vsphere.request.Default.create_machine",
        "vsphere.request.-a.create_machine",
        "vsphere.request.*.create_machine",
        "vsphere.request.default.>",
        "vsphere.request.default.create machine",
    ],
)
def test_other_subjects_are_refused(text: str) -> None:
    with pytest.raises(CallError) as caught:
        Subject.parse(text)
    assert caught.value.code is Code.INVALID_ARGUMENT


@given(TOKENS)
def test_an_id_that_fits_is_its_own_token(event_id: str) -> None:
    assert request_token(event_id) == event_id


@given(
    st.text(min_size=1) | st.sampled_from(["_queue", "a.b", "a b", "*", ">", "x" * 65, "é", "a\n", "\ud800"])
)
def test_any_other_id_is_hashed_to_a_token(event_id: str) -> None:
    token = request_token(event_id)
    assert request_token(token) == token
    if token != event_id:
        assert token == hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def test_an_id_cannot_pass_for_the_queue() -> None:
    assert request_token("_queue") != "_queue"
    assert request_token("x" * 65) == hashlib.sha256(b"x" * 65).hexdigest()[:32]


@given(st.sampled_from(sorted(FUNCTIONS)), st.sampled_from(Kind))
def test_an_event_type_is_read_as_it_was_built(function: str, kind: Kind) -> None:
    assert parse_event_type(event_type(function, kind)) == (function, kind)
    assert event_type("create_machine", Kind.REQUEST) == "io.vspherefunctions.create_machine.request.v1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "io.vspherefunctions.create_machine.request",
        "io.vspherefunctions.create_machine.request.v2",
        "io.vspherefunctions.create_machine.asked.v1",
        "io.vspherefunctions._.request.v1",
        "IO.vspherefunctions.create_machine.request.v1",
        "io.vspherefunctions.create_machine.request.v1\n",
    ],
)
def test_other_types_are_refused(text: str) -> None:
    """E02: the codec's part."""
    with pytest.raises(CallError) as caught:
        parse_event_type(text)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("label", "fits"), [("default", True), ("0-a", True), ("A", False), ("a" * 64, False)]
)
def test_a_vcenter_label(label: str, fits: bool) -> None:
    assert subjects.is_vcenter(label) is fits
