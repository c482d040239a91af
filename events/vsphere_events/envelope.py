"""The CloudEvents codec: binary and structured mode, over NATS and over HTTP."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from vsphere_events import json_text
from vsphere_events.cloud_event import JSON, NO_DATA, CloudEvent, canonical, data_of, is_json, make, refused
from vsphere_events.error import CallError

STRUCTURED_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"

_SAFE = "!#$&'()*+,/:;<=>?@[\\]^`{|}"  # all of U+0021 to U+007E but `"` and `%`, as the bindings say
_PLAIN = re.compile(r"[!#-$&-~]*")  # these and no others stay as they are
_PREFIX = "ce-"


class Mode(StrEnum):
    """How an event lies in a message: attributes as headers, or all of it as one JSON object."""

    BINARY = "binary"
    STRUCTURED = "structured"


@dataclass(frozen=True, slots=True)
class Received:
    """An event and the mode it came in; its result goes out in the same."""

    event: CloudEvent
    mode: Mode


@dataclass(frozen=True, slots=True)
class Batch:
    """Several events in one message, which the NATS binding does not know: publish each on its own."""

    events: tuple[CloudEvent, ...]


def from_nats(headers: Mapping[str, str] | None, body: bytes) -> Received | Batch:
    """Read a NATS message; InvalidArgument, with the reason, for whatever is no event.

    In this order: batch, structured by `Content-Type`, binary by `ce-specversion`, structured without either.
    """
    found = _known(headers or {})
    media = found.get("content-type", "")
    if _is_batch(media):
        return Batch(split_batch(body))
    if received := _structured(media, body):
        return received
    if "ce-specversion" in found:
        media = _decode("datacontenttype", found.pop("ce-datacontenttype", "")) or media
        return Received(_binary(found, media or None, body), Mode.BINARY)
    return _bare(body)


def to_nats(event: CloudEvent, mode: Mode) -> tuple[dict[str, str], bytes]:
    """Write an event as the headers and payload of a NATS message."""
    if mode is Mode.STRUCTURED:
        return {"Content-Type": STRUCTURED_TYPE}, to_json(event)
    return _headers(event.attributes()), _body(event)


def from_http(headers: Mapping[str, str], body: bytes) -> Received:
    """Read an HTTP request or response; InvalidArgument, with the reason, for whatever is no single event."""
    found = {name: _unmangled(value) for name, value in _known(headers).items()}
    media = found.get("content-type", "")
    if _is_batch(media):
        raise refused("a batch; over HTTP send one event, since the answer is one event")
    if received := _structured(media, body):
        return received
    if "ce-specversion" in found:
        if "ce-datacontenttype" in found:
            raise refused("over HTTP, Content-Type says what ce-datacontenttype says over NATS")
        return Received(_binary(found, media or None, body), Mode.BINARY)
    return _bare(body)


def to_http(event: CloudEvent, mode: Mode) -> tuple[dict[str, str], bytes]:
    """Write an event as the headers and body of an HTTP message.

    Structured, whatever the mode, when the data are CloudEvents themselves: their type hides the headers.
    """
    attributes = event.attributes()
    media = str(attributes.pop("datacontenttype", ""))
    if mode is Mode.STRUCTURED or media.lower().startswith("application/cloudevents"):
        return {"Content-Type": STRUCTURED_TYPE}, to_json(event)
    return ({"Content-Type": media} if media else {}) | _headers(attributes), _body(event)


def split_batch(body: bytes) -> tuple[CloudEvent, ...]:
    """Take a batch apart; InvalidArgument when any one of its events is none: nothing is done by halves."""
    rows = _loads(body)
    if not isinstance(rows, list):
        raise refused("a batch should be a JSON array")
    return tuple(_row(at, row) for at, row in enumerate(rows))


def to_json(event: CloudEvent) -> bytes:
    """Write the JSON event format; bytes go into `data_base64`."""
    members: dict[str, Any] = event.attributes()
    if isinstance(event.data, bytes):
        members["data_base64"] = base64.b64encode(event.data).decode("ascii")
    elif event.data is not NO_DATA:
        members["data"] = event.data
    return json_text.dumps(members)


def from_json(text: str | bytes) -> CloudEvent:
    """Read the JSON event format; InvalidArgument with the reason."""
    return _from_members(_loads(text))


def _loads(text: str | bytes) -> Any:
    try:
        return json_text.loads(text)
    except CallError as error:
        raise refused(error.message) from None


def _row(at: int, row: object) -> CloudEvent:
    try:
        return _from_members(row)
    except CallError as error:
        raise refused(f"event {at} of the batch: {error.message}") from None


def _from_members(value: object) -> CloudEvent:
    if not isinstance(value, dict):
        raise refused("an event should be a JSON object")
    members = dict(value)
    data = _data(members, members.get("datacontenttype"))
    return make(members, data)


def _data(members: dict[str, Any], media: object) -> Any:
    """Take the data out of the members, by the JSON event format."""
    if "data" in members and "data_base64" in members:
        raise refused("data and data_base64 exclude each other")
    if (coded := members.pop("data_base64", None)) is not None:
        raw = _base64(coded)
        return data_of(raw, media) if isinstance(media, str) and raw else raw
    data = members.pop("data", NO_DATA)
    if not isinstance(media, str) or is_json(media) or data is NO_DATA:
        return data
    if not isinstance(data, str):
        raise refused("data should be a string, since datacontenttype is not JSON")
    return data.encode("utf-8")


def _base64(text: object) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise refused("data_base64 should be base64") from None


def _known(headers: Mapping[str, str]) -> dict[str, str]:
    """Pick the headers that matter, by lower-case name; the same one twice is refused."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower != "content-type" and not lower.startswith(_PREFIX):
            continue
        if lower in found:
            raise refused(f"the header {lower[:40]} is given twice")
        found[lower] = value
    return found


def _is_batch(media: str) -> bool:
    return media.strip().lower().startswith("application/cloudevents-batch")


def _structured(media: str, body: bytes) -> Received | None:
    """Read a message whose content type says structured; None when it does not."""
    essence = media.partition(";")[0].strip().lower()
    if not essence.startswith("application/cloudevents"):
        return None
    if essence not in {STRUCTURED_TYPE, "application/cloudevents"}:
        raise refused("of the event formats, only JSON is taken")
    return Received(from_json(body), Mode.STRUCTURED)


def _bare(body: bytes) -> Received:
    """Read a structured event whose headers were lost on the way (OpenFaaS's connector drops them)."""
    value = _loads(body)
    if not isinstance(value, dict) or "specversion" not in value:
        raise refused("neither ce-specversion in the headers nor specversion in a JSON body")
    return Received(_from_members(value), Mode.STRUCTURED)


def _binary(found: Mapping[str, str], media: str | None, body: bytes) -> CloudEvent:
    attributes: dict[str, object] = {
        name: _decode(name, value)
        for header, value in found.items()
        if (name := header.removeprefix(_PREFIX)) != header
    }
    if body:
        media = media or JSON
    return make(attributes | {"datacontenttype": media}, data_of(body, media) if body else NO_DATA)


def _decode(name: str, value: str) -> str:
    """Undo quotes, then one round of percent-encoding; what is not encoded stays, a malformed `%` too."""
    if value.isascii() and "%" not in value and '"' not in value:
        return value
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL)
    try:
        return unquote_to_bytes(value).decode("utf-8")
    except UnicodeError:
        raise refused(f"{name[:40]} is not UTF-8 once decoded") from None


def _unmangled(value: str) -> str:
    """Read raw UTF-8 that an HTTP server has taken for Latin-1."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _headers(attributes: Mapping[str, Any]) -> dict[str, str]:
    return {_PREFIX + name: _quoted(canonical(value)) for name, value in attributes.items()}


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quote(text, safe=_SAFE)


def _body(event: CloudEvent) -> bytes:
    if event.data is NO_DATA:
        return b""
    return event.data if isinstance(event.data, bytes) else json_text.dumps(event.data)
