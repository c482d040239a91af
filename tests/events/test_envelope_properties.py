"""Properties of the codec: every event comes back, and whatever else comes is refused."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.event_strategies import BODIES, HEADERS, events
from vsphere_events.cloud_event import CloudEvent, canonical
from vsphere_events.code import Code
from vsphere_events.envelope import (
    Batch,
    Mode,
    Received,
    from_http,
    from_json,
    from_nats,
    split_batch,
    to_http,
    to_json,
    to_nats,
)
from vsphere_events.error import CallError


def _as_text(event: CloudEvent) -> CloudEvent:
    """Give the event with its extensions as text: headers know no numbers."""
    texts = {name: canonical(value) for name, value in event.extensions.items()}
    return dataclasses.replace(event, extensions=texts)


@given(events())
def test_an_event_over_nats_comes_back_in_both_modes(event: CloudEvent) -> None:
    assert from_nats(*to_nats(event, Mode.STRUCTURED)) == Received(event, Mode.STRUCTURED)
    assert from_nats(*to_nats(event, Mode.BINARY)) == Received(_as_text(event), Mode.BINARY)


@given(events())
def test_an_event_over_http_comes_back_in_both_modes(event: CloudEvent) -> None:
    assert from_http(*to_http(event, Mode.STRUCTURED)) == Received(event, Mode.STRUCTURED)
    assert from_http(*to_http(event, Mode.BINARY)) == Received(_as_text(event), Mode.BINARY)


@given(events())
def test_headers_are_printable_ascii_without_spaces_so_that_no_server_changes_them(event: CloudEvent) -> None:
    for name, value in to_nats(event, Mode.BINARY)[0].items():
        assert all("!" <= char <= "~" for char in name + value)


@given(events())
def test_a_structured_event_without_any_header_is_read(event: CloudEvent) -> None:
    """E06: OpenFaaS's connector sends the body alone."""
    assert from_nats(None, to_json(event)) == Received(event, Mode.STRUCTURED)


@given(events(), events())
def test_a_batch_over_nats_comes_apart_into_its_events(one: CloudEvent, two: CloudEvent) -> None:
    """E07: the codec's part."""
    body = b"[" + to_json(one) + b"," + to_json(two) + b"]"
    assert from_nats({"Content-Type": "application/cloudevents-batch+json"}, body) == Batch((one, two))


def _refused(error: CallError) -> bool:
    return error.code is Code.INVALID_ARGUMENT and bool(error.message)


@pytest.mark.parametrize("read", [from_nats, from_http])
@given(headers=HEADERS, body=BODIES)
def test_whatever_comes_is_an_event_or_a_refusal(
    read: Callable[[dict[str, str], bytes], Received | Batch], headers: dict[str, str], body: bytes
) -> None:
    refusal: CallError | None = None
    taken: tuple[CloudEvent, ...] = ()
    try:
        received = read(headers, body)
        taken = received.events if isinstance(received, Batch) else (received.event,)
    except CallError as error:
        refusal = error
    assert refusal is None or _refused(refusal)
    assert all(from_json(to_json(event)) == event for event in taken)


@given(BODIES)
def test_whatever_body_comes_is_a_batch_or_a_refusal(body: bytes) -> None:
    refusal: CallError | None = None
    try:
        split_batch(body)
    except CallError as error:
        refusal = error
    assert refusal is None or _refused(refusal)


@pytest.mark.parametrize("mode", Mode)
@given(event=events(), at=st.integers(0, 10_000), put=st.binary(max_size=3), headers=HEADERS)
def test_a_good_message_with_one_change_is_an_event_or_a_refusal(
    mode: Mode, event: CloudEvent, at: int, put: bytes, headers: dict[str, str]
) -> None:
    for write, read in ((to_nats, from_nats), (to_http, from_http)):
        good, body = write(event, mode)
        cut = at % (len(body) + 1)
        for changed in (good, good | dict(list(headers.items())[:1])):
            refusal: CallError | None = None
            try:
                read(changed, body[:cut] + put + body[cut + 1 :])
            except CallError as error:
                refusal = error
            assert refusal is None or _refused(refusal)
