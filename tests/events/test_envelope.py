"""The CloudEvents codec, rule by rule."""

import base64
import json
from typing import Any

import pytest

from vsphere_events.cloud_event import NO_DATA, CloudEvent
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

MEMBERS = {"specversion": "1.0", "id": "1", "source": "/p", "type": "t"}
HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/p", "ce-type": "t"}


def _structured(**members: Any) -> CloudEvent:
    return from_json(json.dumps(MEMBERS | members))


def _binary(body: bytes = b"", **headers: str) -> CloudEvent:
    received = from_nats(HEADERS | {f"ce-{name}": value for name, value in headers.items()}, body)
    assert isinstance(received, Received)
    return received.event


def _reason(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(CallError) as caught:
        call(*arguments, **named)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


# E03


def test_good_base64_is_taken() -> None:
    """E03."""
    event = _structured(data_base64=base64.b64encode(b"\x00\xff").decode())
    assert event.data == b"\x00\xff"
    assert event.datacontenttype == "application/octet-stream"


def test_base64_of_a_json_type_is_json() -> None:
    """E03."""
    coded = base64.b64encode(b'{"a":1}').decode()
    assert _structured(datacontenttype="application/json", data_base64=coded).data == {"a": 1}
    assert _structured(datacontenttype="application/json", data_base64="").data is NO_DATA
    broken = base64.b64encode(b"{").decode()
    assert "data: not JSON" in _reason(_structured, datacontenttype="application/json", data_base64=broken)


@pytest.mark.parametrize("coded", ["@@@", "QQ", "QQ==QQ==", "QQ=\n=", "é", 7, ["QQ=="]])
def test_broken_base64_is_refused(coded: object) -> None:
    """E03."""
    assert "data_base64 should be base64" in _reason(_structured, data_base64=coded)


def test_data_and_base64_together_are_refused() -> None:
    """E03."""
    assert "exclude each other" in _reason(_structured, data={}, data_base64="QQ==")
    assert "exclude each other" in _reason(_structured, data=None, data_base64="QQ==")


def test_a_missing_datacontenttype_is_json() -> None:
    """E03."""
    assert _structured(data={"a": 1}).datacontenttype == "application/json"
    assert _structured(data="{}").data == "{}"
    assert _binary(b'{"a":1}').data == {"a": 1}
    assert from_http(HEADERS, b"[1]").event.data == [1]


# E04


@pytest.mark.parametrize(
    "time",
    [
        "yesterday",
        "2026-11-29",
        "2026-11-29T12:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-11-29T24:00:00Z",
        "2026-11-29T12:00:00+25:00",
        "2026-11-29 12:00:00Z",
        "\uff12026-11-29T12:00:00Z",
        1764417600,
    ],
)
def test_a_bad_time_is_refused(time: object) -> None:
    """E04."""
    assert "time should be" in _reason(_structured, time=time)


@pytest.mark.parametrize(
    "time", ["2026-11-29T12:00:00Z", "2026-11-29t12:00:00.5+05:30", "2016-12-31T23:59:60Z"]
)
def test_a_good_time_is_kept_as_it_came(time: str) -> None:
    assert _structured(time=time).time == time


@pytest.mark.parametrize("value", [{}, {"a": 1}, [], 1.5, 2**31, -(2**31) - 1])
def test_an_object_a_list_a_fraction_and_a_big_number_are_no_extensions(value: object) -> None:
    """E04."""
    assert "ext should be" in _reason(_structured, ext=value)


def test_a_boolean_extension_is_written_true() -> None:
    """E04."""
    event = _structured(ext=True, other=False, number=-3)
    assert event.extension("ext") == "true"
    assert (
        to_nats(event, Mode.BINARY)[0] | {"ce-ext": "true", "ce-other": "false", "ce-number": "-3"}
        == (to_nats(event, Mode.BINARY)[0])
    )
    assert json.loads(to_json(event))["ext"] is True


def test_a_null_attribute_is_absent() -> None:
    """E04."""
    event = _structured(subject=None, ext=None, datacontenttype=None)
    assert event.subject is None
    assert event.extensions == {}
    assert event.extension("ext") is None


# E05


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("VM-K%C3%B6ln%20%E2%82%AC", "VM-Köln €"),
        ("VM-K%c3%b6ln%20%e2%82%ac", "VM-Köln €"),
        ("VM-Köln €", "VM-Köln €"),
        ("100%", "100%"),
        ("100%zz%4", "100%zz%4"),
        ("a%2520b", "a%20b"),
        ('"VM \\"K\\\\"', 'VM "K\\'),
        ('"a%20b"', "a b"),
        ('"', '"'),
        ("%41", "A"),
    ],
)
def test_header_values_are_read_rightly_from_any_peer(sent: str, read: str) -> None:
    """E05."""
    assert _binary(subject=sent).subject == read
    assert from_http(HEADERS | {"ce-subject": sent}, b"").event.subject == read


def test_raw_utf8_over_http_is_read_though_servers_take_it_for_latin_1() -> None:
    """E05."""
    mangled = "VM-Köln €".encode().decode("latin-1")
    assert from_http(HEADERS | {"ce-subject": mangled}, b"").event.subject == "VM-Köln €"
    assert from_http(HEADERS | {"ce-subject": "VM-K\xf6ln"}, b"").event.subject == "VM-Köln"


def test_values_are_written_percent_encoded_in_upper_case() -> None:
    """E05; the example stands in the NATS binding."""
    event = CloudEvent(id="1", source="/p", type="t", subject="Euro € 😀", extensions={"e": 'a"b%c~!'})
    for headers in (to_nats(event, Mode.BINARY)[0], to_http(event, Mode.BINARY)[0]):
        assert headers["ce-subject"] == "Euro%20%E2%82%AC%20%F0%9F%98%80"
        assert headers["ce-e"] == "a%22b%25c~!"


@pytest.mark.parametrize("value", ["%C0%A0", "%ff", "%ED%A0%80", "\ud800"])
def test_what_is_not_utf8_once_decoded_is_refused(value: str) -> None:
    assert "subject is not UTF-8" in _reason(_binary, subject=value)


@pytest.mark.parametrize("value", ["a%0Ab", "%00", "%7F", "%EF%BF%BF", "%F0%9F%BF%BE", "%EF%B7%90"])
def test_control_characters_and_noncharacters_are_refused(value: str) -> None:
    assert "control character" in _reason(_binary, subject=value)


# E06


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
@pytest.mark.parametrize(
    "media", ["application/cloudevents+json", "Application/CloudEvents+JSON; charset=UTF-8"]
)
def test_structured_mode_is_known_by_its_content_type_in_any_case(name: str, media: str) -> None:
    """E06."""
    stray = {name: media, "ce-id": "stray", "ce-specversion": "0.3", "ce-traceparent": "x"}
    for read in (from_nats, from_http):
        received = read(stray, json.dumps(MEMBERS).encode())
        assert isinstance(received, Received)
        assert received.mode is Mode.STRUCTURED
        assert received.event.id == "1"
        assert received.event.extensions == {}


def test_binary_mode_is_known_by_ce_specversion_in_any_case() -> None:
    """E06."""
    headers = {name.upper(): value for name, value in HEADERS.items()} | {"CE-MyExt": "v", "Nats-Msg-Id": "x"}
    received = from_nats(headers, b"{}")
    assert isinstance(received, Received)
    assert received.mode is Mode.BINARY
    assert received.event.extensions == {"myext": "v"}


def test_a_structured_body_without_headers_is_read() -> None:
    """E06."""
    body = json.dumps(MEMBERS).encode()
    for headers in (None, {}, {"ce-id": "stray"}, {"Content-Type": "application/json"}):
        assert from_nats(headers, body) == Received(_structured(), Mode.STRUCTURED)
    assert from_http({"Content-Type": "application/x-www-form-urlencoded"}, body).event == _structured()


@pytest.mark.parametrize("body", [b"", b"x", b"{}", b"[]", b"null", b'"specversion"', b"\xff"])
def test_what_is_no_event_at_all_is_refused(body: bytes) -> None:
    _reason(from_nats, None, body)
    _reason(from_http, {"content-type": "application/json"}, body)


def test_only_the_json_event_format_is_taken() -> None:
    assert "only JSON" in _reason(from_nats, {"Content-Type": "application/cloudevents+avro"}, b"{}")


# E07


def test_a_batch_over_http_is_refused_and_over_nats_reported() -> None:
    """E07."""
    headers = {"content-type": "Application/CloudEvents-Batch+JSON", "ce-specversion": "1.0"}
    body = json.dumps([MEMBERS, MEMBERS | {"id": "2"}]).encode()
    assert "batch" in _reason(from_http, headers, body)
    assert from_nats(headers, body) == Batch((_structured(), _structured(id="2")))
    assert from_nats(headers, b"[]") == Batch(())


def test_a_batch_with_one_bad_event_is_refused_whole() -> None:
    """E07."""
    body = json.dumps([MEMBERS, MEMBERS | {"id": ""}]).encode()
    assert "event 1 of the batch" in _reason(split_batch, body)
    assert "event 0 of the batch" in _reason(split_batch, b"[[]]")
    assert "JSON array" in _reason(split_batch, b"{}")


# Attributes


@pytest.mark.parametrize("name", ["id", "source", "type"])
@pytest.mark.parametrize("value", [None, "", 7, [], {}])
def test_a_required_attribute_that_is_missing_empty_or_no_text_is_refused(name: str, value: object) -> None:
    """E02: the codec's part; an id is never made up."""
    assert name in _reason(_structured, **{name: value})
    headers = {key: text for key, text in HEADERS.items() if key != f"ce-{name}"}
    assert f"{name} is missing" in _reason(from_nats, headers, b"")


@pytest.mark.parametrize("version", [None, "0.3", "1.1", 1.0, True, []])
def test_another_specversion_is_refused(version: object) -> None:
    assert "specversion" in _reason(_structured, specversion=version)


@pytest.mark.parametrize("name", ["myExt", "my_ext", "my-ext", "", "é"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    assert "name" in _reason(_structured, **{name: "v"})


@pytest.mark.parametrize("name", ["my-ext", "data", "", "data_base64"])
def test_a_header_that_names_no_attribute_is_refused(name: str) -> None:
    assert "name" in _reason(_binary, **{name: "v"})


def test_the_same_header_in_two_cases_is_refused() -> None:
    assert "ce-id is given twice" in _reason(from_nats, HEADERS | {"CE-ID": "2"}, b"")


def test_a_source_with_white_space_and_a_media_type_without_a_slash_are_refused() -> None:
    assert "URI" in _reason(_structured, source="a b")
    assert "media type" in _reason(_structured, datacontenttype="json")
    assert "datacontenttype should be a string" in _reason(_structured, datacontenttype=7)


# Data


def test_over_nats_ce_datacontenttype_counts_before_content_type() -> None:
    received = from_nats(
        HEADERS | {"ce-datacontenttype": "text/plain", "Content-Type": "application/json"}, b"{"
    )
    assert isinstance(received, Received)
    assert received.event.data == b"{"
    fallback = from_nats(HEADERS | {"Content-Type": "text/plain"}, b"{")
    assert isinstance(fallback, Received)
    assert fallback.event.datacontenttype == "text/plain"


def test_over_http_only_content_type_counts() -> None:
    event = from_http(HEADERS | {"Content-Type": "text/plain"}, b"123").event
    assert event.data == b"123"
    assert to_http(event, Mode.BINARY)[0]["Content-Type"] == "text/plain"
    assert "ce-datacontenttype" not in to_http(event, Mode.BINARY)[0]
    assert "Content-Type" in _reason(from_http, HEADERS | {"ce-datacontenttype": "text/plain"}, b"")


def test_a_json_body_that_is_none_is_refused() -> None:
    assert "data: not JSON" in _reason(_binary, b"{", datacontenttype="application/json")


def test_text_data_in_structured_mode_are_bytes_and_nothing_else_fits() -> None:
    assert _structured(datacontenttype="text/plain", data="é").data == "é".encode()
    assert "should be a string" in _reason(_structured, datacontenttype="text/plain", data={"a": 1})


def test_null_is_data_and_no_data_is_not() -> None:
    assert _structured(data=None).data is None
    assert json.loads(to_json(_structured(data=None)))["data"] is None
    assert "data" not in json.loads(to_json(_structured()))
    assert _structured().data is NO_DATA
    assert repr(NO_DATA) == "NO_DATA"


def test_data_that_do_not_fit_their_type_make_no_event() -> None:
    assert "does not fit" in _reason(
        CloudEvent, id="1", source="/p", type="t", data=b"x", datacontenttype="application/json"
    )
    assert "does not fit" in _reason(
        CloudEvent, id="1", source="/p", type="t", data={}, datacontenttype="text/plain"
    )


def test_an_event_whose_data_are_an_event_goes_structured_over_http() -> None:
    inner = CloudEvent(
        id="1", source="/p", type="t", data=to_json(_structured()), datacontenttype="application/cloudevents"
    )
    assert from_http(*to_http(inner, Mode.BINARY)) == Received(inner, Mode.STRUCTURED)
    assert from_nats(*to_nats(inner, Mode.BINARY)) == Received(inner, Mode.BINARY)


def test_a_refusal_shows_no_value() -> None:
    for members in (
        {"time": "hunter2"},
        {"source": "hunter2 x"},
        {"ext": ["hunter2"]},
        {"data_base64": "hunter2!"},
    ):
        assert "hunter2" not in _reason(_structured, **members)
