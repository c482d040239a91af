"""The events that answer a request: results and progress. Pure: the caller gives the time."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from vsphere_events import json_text, volume
from vsphere_events.cloud_event import CloudEvent, fits
from vsphere_events.error import CallError
from vsphere_events.model import Model, Result
from vsphere_events.outcome import Failure, Progress
from vsphere_events.owner import owner_of
from vsphere_events.subjects import Kind, event_type, request_token, source_of

_PASSED_ON = ("traceparent", "tracestate")


class _About(NamedTuple):
    function: str
    request: CloudEvent
    vcenter: str


def succeeded(
    function: str, request: CloudEvent, vcenter: str, result: Result, *, at: datetime, generation: int = 0
) -> CloudEvent:
    """Make the result of a call that went well; `generation` counts redrives, 0 is the first answer."""
    about = _About(function, request, vcenter)
    return _event(about, Kind.SUCCEEDED, result_id(request.id, generation), at, result.wire())


def failed(
    function: str, request: CloudEvent, vcenter: str, error: CallError, *, at: datetime, generation: int = 0
) -> CloudEvent:
    """Make the result of a call that failed; it carries what the error knows to resume from."""
    about = _About(function, request, vcenter)
    return _event(about, Kind.FAILED, result_id(request.id, generation), at, Failure.of(error).wire())


def progress(
    function: str, request: CloudEvent, vcenter: str, said: Progress, *, at: datetime, number: int
) -> CloudEvent:
    """Make a progress event, the `number`th of its request."""
    about = _About(function, request, vcenter)
    return _event(about, Kind.PROGRESS, f"{request_token(request.id)}.progress.{number}", at, said.wire())


def result_id(request_id: str, generation: int = 0) -> str:
    """Name a result: `<token>.result`, redriven `<token>.result.<n>`."""
    return f"{request_token(request_id)}.result" + (f".{generation}" if generation else "")


def request_hash(kind: str, request: Model) -> str:
    """Tell requests apart by content: SHA-256 over event type and data, without secrets and defaults."""
    data = request.model_dump(mode="json", by_alias=True, exclude={"secrets"}, exclude_defaults=True)
    return hashlib.sha256(json_text.canonical([kind, data])).hexdigest()


def subject_of(function: str, request: CloudEvent, answer: dict[str, Any]) -> str | None:
    """Name what a result is about: the machine, `<store>/<id>`, the owner, else what the request says."""
    given = request.data if isinstance(request.data, dict) else {}
    made = answer.get("volume")

    def named() -> Iterator[object]:
        yield given.get("machineName")
        yield answer.get("nodeName")
        if function != "cancel_request":  # the id in it is that of an event
            yield volume.subject_of(given, made and made.get("selfLink"))
        yield owner_in(given)
        yield request.subject

    return next((name for name in named() if isinstance(name, str) and fits(name)), None)


def owner_in(data: object) -> str | None:
    """Name the owner that request data, checked or not, is about."""
    given = data if isinstance(data, dict) else {}
    spec = given.get("providerSpec")
    tags = spec.get("tags") if isinstance(spec, dict) else None
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        return None
    try:
        return str(owner_of(tags))
    except CallError:
        return None


def _event(about: _About, kind: Kind, event_id: str, at: datetime, data: dict[str, Any]) -> CloudEvent:
    request = about.request
    passed_on = {name: value for name in _PASSED_ON if (value := request.extensions.get(name)) is not None}
    return CloudEvent(
        id=event_id,
        source=source_of(about.vcenter),
        type=event_type(about.function, kind),
        subject=subject_of(about.function, request, data),
        time=at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        data=data,
        extensions={
            "correlationid": request.id,
            "causationid": request.id,
            "causationsource": request.source,
            **passed_on,
        },
    )
