"""The codec beside the CloudEvents SDK: each reads what the other writes."""

import dataclasses
import json
from typing import Any

import pytest
from cloudevents.conversion import to_binary as sdk_to_binary
from cloudevents.conversion import to_structured as sdk_to_structured
from cloudevents.http import CloudEvent as SdkEvent
from cloudevents.http import from_http as sdk_from_http
from hypothesis import given

from events.event_strategies import events
from vsphere_events.cloud_event import NO_DATA, CloudEvent, canonical, is_json
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_events.error import CallError
from vsphere_events.sdk import from_sdk, to_sdk


def _as_text(event: CloudEvent) -> CloudEvent:
    texts = {name: canonical(value) for name, value in event.extensions.items()}
    return dataclasses.replace(event, extensions=texts)


@given(events())
def test_an_event_goes_through_the_sdk_objects_unchanged(event: CloudEvent) -> None:
    back = from_sdk(to_sdk(event))
    # The SDK knows no difference between null and nothing.
    assert back == dataclasses.replace(_as_text(event), data=NO_DATA if event.data is None else event.data)


EVENT = CloudEvent(
    id="1",
    source="/p",
    type="t",
    subject="w1",
    time="2026-11-29T12:00:00Z",
    data={"a": ["é", 1, None]},
    extensions={"ext": "v"},
)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "event",
    [
        EVENT,
        dataclasses.replace(EVENT, data=b"\x00\xff", datacontenttype="image/png"),
        CloudEvent("1", "/p", "t", time=EVENT.time),
    ],
    ids=["json", "bytes", "nothing"],
)
def test_the_sdk_reads_what_we_write(event: CloudEvent, mode: Mode) -> None:
    headers, body = to_http(event, mode)
    read = sdk_from_http({name.lower(): value for name, value in headers.items()}, body)
    assert from_sdk(read) == event


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(
    "event",
    [EVENT, dataclasses.replace(EVENT, data=b"\x00\xff", datacontenttype="image/png")],
    ids=["json", "bytes"],
)
def test_we_read_what_the_sdk_writes(event: CloudEvent, mode: Mode) -> None:
    write: Any = sdk_to_structured if mode is Mode.STRUCTURED else sdk_to_binary
    headers, body = write(to_sdk(event))
    received = from_http(headers, body)
    assert received.event == event
    assert received.mode is mode


@given(events())
def test_the_sdk_reads_any_json_event_that_we_write_structured(event: CloudEvent) -> None:
    headers, body = to_http(event, Mode.STRUCTURED)
    read = sdk_from_http({name.lower(): value for name, value in headers.items()}, body)
    assert read["id"] == event.id
    assert read["source"] == event.source
    if is_json(event.datacontenttype) and event.data not in (
        NO_DATA,
        None,
        "",
    ):  # it takes an empty text for none
        assert read.data == event.data


def test_what_the_sdk_lets_pass_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"time": "yesterday"}, {"id": ""}, {"my_ext": "x"}, {"ext": {"a": 1}}]
    for attributes in wrong:
        loose = SdkEvent({"source": "/p", "type": "t"} | attributes, {"a": 1})
        with pytest.raises(CallError) as caught:
            from_sdk(loose)
        assert caught.value.code is Code.INVALID_ARGUMENT


def test_the_sdk_text_and_bytes_are_read_by_their_type() -> None:
    text = {"source": "/p", "type": "t", "datacontenttype": "text/plain"}
    assert from_sdk(SdkEvent(text, "é")).data == "é".encode()
    as_json = text | {"datacontenttype": "application/json"}
    assert from_sdk(SdkEvent(as_json, json.dumps({"a": 1}).encode())).data == {"a": 1}
    assert from_sdk(SdkEvent(as_json, "text")).data == "text"
