"""A CloudEvent 1.0, checked when it is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.error import CallError


class _NoData(Enum):
    NO_DATA = "no data"

    def __repr__(self) -> str:
        return "NO_DATA"


NO_DATA: Final = _NoData.NO_DATA
"""The event has no data; `None` would be JSON's null, which is data."""

Attribute: TypeAlias = str | int | bool

JSON = "application/json"
OCTETS = "application/octet-stream"
CORE = ("id", "source", "type", "subject", "time", "datacontenttype", "dataschema")

_REQUIRED = frozenset({"id", "source", "type"})
_RESERVED = frozenset({*CORE, "specversion", "data"})
_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef]")
_MEDIA = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+( *;([\x20-\x7e]*[\x21-\x7e])?)?", re.ASCII)
_JSON_MEDIA = re.compile(r"[^/]+/([^/]+\+)?json", re.IGNORECASE)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:)(\d\d)(\.\d+)?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """An event; InvalidArgument, naming the attribute but never its value, when it breaks the rules.

    `data` is a JSON value when `datacontenttype` is JSON, else bytes. Where `datacontenttype` is
    left out it is filled in: `application/json` for a JSON value, `application/octet-stream` for bytes. Empty
    bytes are no data: a binary message cannot tell the two apart.
    """

    id: str
    source: str
    type: str
    data: Any = NO_DATA
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, Attribute] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in CORE:
            value, required = getattr(self, name), name in _REQUIRED
            if required or value is not None:
                _check_core(name, value)
        for name, value in self.extensions.items():
            _check_extension(name, value)
        if self.data == b"":
            object.__setattr__(self, "data", NO_DATA)
        if self.datacontenttype is None and self.data is not NO_DATA:
            implied = OCTETS if isinstance(self.data, bytes) else JSON
            object.__setattr__(self, "datacontenttype", implied)
        if self.data is not NO_DATA and isinstance(self.data, bytes) == is_json(self.datacontenttype):
            raise refused("data does not fit datacontenttype")

    def attributes(self) -> dict[str, Attribute]:
        """List every attribute that is there, `specversion` included, `data` not."""
        core = {name: getattr(self, name) for name in CORE}
        return {
            "specversion": "1.0",
            **{name: value for name, value in core.items() if value is not None},
            **self.extensions,
        }

    def extension(self, name: str) -> str | None:
        """Give an extension in its canonical text, or None."""
        value = self.extensions.get(name)
        return None if value is None else canonical(value)


def make(attributes: Mapping[str, object], data: Any = NO_DATA) -> CloudEvent:
    """Make an event of attributes as they came; null ones are absent. InvalidArgument as CloudEvent."""
    there = {name: value for name, value in attributes.items() if value is not None}
    if there.pop("specversion", None) != "1.0":
        raise refused("specversion should be 1.0")
    core: dict[str, Any] = {name: there.pop(name, None) for name in CORE}
    extensions: dict[str, Any] = there
    return CloudEvent(**core, data=data, extensions=extensions)


def canonical(value: Attribute) -> str:
    """Render an attribute's value as text: `true`, `3`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def fits(value: object) -> bool:
    """Tell whether a value can be an attribute's text."""
    return isinstance(value, str) and bool(value) and not _unfit(value)


def is_json(media_type: str | None) -> bool:
    """Tell whether a media type is JSON: `*/json` or `*/*+json`, in any case, whatever its parameters."""
    return bool(_JSON_MEDIA.fullmatch((media_type or "").partition(";")[0].strip()))


def data_of(body: bytes, media_type: str | None) -> Any:
    """Read a body by its media type: JSON, or bytes as they are; InvalidArgument when it is no JSON."""
    if not is_json(media_type):
        return body
    try:
        return json_text.loads(body)
    except CallError as error:
        raise refused(f"data: {error.message}") from None


def refused(reason: str) -> CallError:
    """Make the refusal of an event: InvalidArgument with the reason."""
    return CallError(Code.INVALID_ARGUMENT, f"not a CloudEvent that can be taken: {reason}")


def _check_core(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise refused(f"{name} should be a string" if value else f"{name} is missing or empty")
    _check_text(name, value)
    if name in {"source", "dataschema"} and re.search(r"\s", value):
        raise refused(f"{name} should be a URI")
    if name == "datacontenttype" and not _MEDIA.fullmatch(value):
        raise refused("datacontenttype should be a media type")
    if name == "time":
        _check_time(value)


def _check_extension(name: object, value: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise refused("an attribute's name should be lower-case letters and digits, and not reserved")
    if isinstance(value, str):
        _check_text(name, value)
    elif not isinstance(value, int):
        raise refused(f"{name[:40]} should be a string, an integer or a boolean")
    elif not -(2**31) <= value < 2**31:
        raise refused(f"{name[:40]} should be an integer of 32 bits")


def _check_text(name: str, value: str) -> None:
    if _unfit(value):
        raise refused(f"{name[:40]} has a control character, or one that is no character")


def _unfit(value: str) -> bool:
    """Look for control characters, lone surrogates and the two noncharacters that end each plane."""
    if _UNFIT.search(value):
        return True
    return not value.isascii() and any(ord(char) & 0xFFFE == 0xFFFE for char in value)


def _check_time(value: str) -> None:
    found = _TIME.fullmatch(value)
    try:
        # A leap second is a time, but not Python's.
        datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3].replace('60', '59')}") if found else None
    except ValueError:
        found = None
    if not found:
        raise refused("time should be RFC 3339, as 2026-11-29T12:00:00Z")
