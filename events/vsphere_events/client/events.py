"""What a producer sends and gets: a request's event, and the model or error that a result event stands for."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack
from uuid import uuid4

from pydantic import ValidationError

from vsphere_events.cloud_event import Attribute, CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.functions import FUNCTIONS
from vsphere_events.model import Result
from vsphere_events.outcome import Failure, Progress
from vsphere_events.subjects import Kind, event_type, parse_event_type

SOURCE = "/producers/vsphere-events"


class Where(TypedDict, total=False):
    """Where requests go, as whose, and how long to wait: `timeout` in seconds, an hour if not given."""

    vcenter: str
    source: str
    timeout: float
    extensions: Mapping[str, Attribute]


class How(Where, total=False):
    """How one request is sent. Sent again under its `id` and `source` it gets the first answer again."""

    id: str


class Told(How, total=False):
    """How one request is sent and followed."""

    on_progress: Callable[[Progress], None]


def request_event(function: str, data: Mapping[str, Any], **how: Unpack[How]) -> CloudEvent:
    """Make the event of a request, under a fresh id unless one is given."""
    return CloudEvent(
        id=how.get("id") or str(uuid4()),
        source=how.get("source", SOURCE),
        type=event_type(function, Kind.REQUEST),
        time=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        data=dict(data),
        extensions=how.get("extensions", {}),
    )


def result_of(function: str, event: CloudEvent) -> Any:
    """Read a result event: the function's result model; the failed one is raised as a CallError.

    Fields of a newer contract are ignored. Internal when the event has another shape.
    """
    failed = parse_event_type(event.type)[1] is Kind.FAILED
    model: type[Result] = Failure if failed else FUNCTIONS[function].result
    try:
        found = model.model_validate(event.data, by_alias=True, extra="ignore")
    except ValidationError:
        raise CallError(Code.INTERNAL, f"the result of {function} does not have its shape") from None
    if isinstance(found, Failure):
        raise _error_of(found)
    return found


def _error_of(failure: Failure) -> CallError:
    said = failure.error
    return CallError(
        said.code,
        said.message,
        details=[Detail(one.reason, one.field, one.candidates or ()) for one in said.details],
        provider_id=failure.provider_id,
        node_name=failure.node_name,
        last_known_state=failure.last_known_state,
    )
