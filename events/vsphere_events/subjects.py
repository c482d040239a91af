"""NATS subjects, event types and the request token: the names that producers and workers share."""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from vsphere_events.code import Code
from vsphere_events.error import CallError

QUEUE = "_queue"
"""The last token of the subject that tells how many requests wait; no request token begins so."""

_VCENTER = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_FUNCTION = re.compile(r"[a-z]+(_[a-z]+)*", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9-][A-Za-z0-9_-]{0,63}", re.ASCII)
_TYPE = re.compile(r"io\.vspherefunctions\.([a-z_]+)\.([a-z]+)\.v1", re.ASCII)


class Kind(StrEnum):
    """What an event of the bundle is."""

    REQUEST = "request"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PROGRESS = "progress"


_KINDS = frozenset(Kind)


class Channel(StrEnum):
    """What the messages on a subject are; `call` is request and reply, outside every stream."""

    REQUEST = "request"
    RESULT = "result"
    PROGRESS = "progress"
    DEAD = "dead"
    CALL = "call"


_WITH_TOKEN = frozenset({Channel.RESULT, Channel.PROGRESS})


@dataclass(frozen=True, slots=True)
class Subject:
    """`vsphere.<channel>.<vcenter>.<function>`, and for results and progress the request token."""

    channel: Channel
    vcenter: str
    function: str
    token: str | None = None

    def __post_init__(self) -> None:
        token_fits = (self.token is not None) == (self.channel in _WITH_TOKEN)
        queue = self.token == QUEUE and self.channel is Channel.PROGRESS
        if not (
            is_vcenter(self.vcenter)
            and _FUNCTION.fullmatch(self.function)
            and token_fits
            and (self.token is None or queue or _TOKEN.fullmatch(self.token))
        ):
            raise CallError(Code.INVALID_ARGUMENT, f"not a subject of the channel {self.channel}")

    def __str__(self) -> str:
        return ".".join(filter(None, ("vsphere", self.channel, self.vcenter, self.function, self.token)))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a subject; InvalidArgument when it is none of the bundle's."""
        match text.split("."):
            case ["vsphere", channel, vcenter, function, *rest] if channel in set(Channel) and len(rest) < 2:
                return cls(Channel(channel), vcenter, function, *rest)
        raise CallError(Code.INVALID_ARGUMENT, "not a subject of vsphere-functions")


def request_subject(vcenter: str, function: str) -> str:
    """Name where a request is published."""
    return str(Subject(Channel.REQUEST, vcenter, function))


def result_subject(vcenter: str, function: str, token: str) -> str:
    """Name where the result of one request is published; subscribe before publishing the request."""
    return str(Subject(Channel.RESULT, vcenter, function, token))


def progress_subject(vcenter: str, function: str, token: str) -> str:
    """Name where the progress of one request is published."""
    return str(Subject(Channel.PROGRESS, vcenter, function, token))


def queue_subject(vcenter: str, function: str) -> str:
    """Name where `{sequence, waiting}` of a function is published."""
    return str(Subject(Channel.PROGRESS, vcenter, function, QUEUE))


def dead_subject(vcenter: str, function: str) -> str:
    """Name where requests go that are given up."""
    return str(Subject(Channel.DEAD, vcenter, function))


def call_subject(vcenter: str, function: str) -> str:
    """Name where a request is sent for a direct reply."""
    return str(Subject(Channel.CALL, vcenter, function))


def request_token(event_id: str) -> str:
    """Name a request in subjects and keys: its id where that fits, else 32 hex digits of its SHA-256."""
    if _TOKEN.fullmatch(event_id):
        return event_id
    return hashlib.sha256(event_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_vcenter(label: str) -> bool:
    """Tell whether a label can name a vCenter: at most 63 lower-case letters, digits and dashes."""
    return _VCENTER.fullmatch(label) is not None


def event_type(function: str, kind: Kind) -> str:
    """Name an event: `io.vspherefunctions.<function>.<kind>.v1`."""
    return f"io.vspherefunctions.{function}.{kind}.v1"


def parse_event_type(text: str) -> tuple[str, Kind]:
    """Read an event type as (function, kind); InvalidArgument when it is none of the bundle's."""
    found = _TYPE.fullmatch(text)
    if not found or found[2] not in _KINDS or not _FUNCTION.fullmatch(found[1]):
        raise CallError(Code.INVALID_ARGUMENT, "not an event type of vsphere-functions")
    return found[1], Kind(found[2])


def source_of(vcenter: str) -> str:
    """Name the source of results and progress."""
    return f"/vsphere-functions/{vcenter}"
