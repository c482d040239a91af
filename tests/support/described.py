"""The schemas, made once, and what the AsyncAPI document says of a message, to be held against real ones."""

from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from vsphere_events.asyncapi import FILE, document
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode
from vsphere_events.event_schemas import schemas
from vsphere_events.subjects import Kind, parse_event_type

DOCUMENT = document()
SCHEMAS = schemas()

_BASE = "https://schemas.example/"
_REGISTRY: Registry[Any] = Registry().with_resources(
    (_BASE + name, DRAFT202012.create_resource(content))
    for name, content in {**SCHEMAS, FILE: DOCUMENT}.items()
)
_CHANNELS = {
    Kind.REQUEST: "request",
    Kind.SUCCEEDED: "result",
    Kind.FAILED: "result",
    Kind.PROGRESS: "progress",
}


def looked_up(reference: str) -> Any:
    """Where a `$ref` of the document leads."""
    return _REGISTRY.resolver(_BASE + FILE).lookup(reference).contents


def message_of(event: CloudEvent, mode: Mode) -> dict[str, Any]:
    """The message that an event is on its channel."""
    function, kind = parse_event_type(event.type)
    messages = DOCUMENT["channels"][f"{function}.{_CHANNELS[kind]}"]["messages"]
    message: dict[str, Any] = looked_up(messages[f"{kind}.{mode}"]["$ref"])
    return message


def validator(schema: Any) -> Draft202012Validator:
    """A validator of a schema that stands in the document; its references start from there."""
    resource = DRAFT202012.create_resource(DOCUMENT | {"schema": schema})
    registry: Registry[Any] = _REGISTRY.with_resource(_BASE + FILE, resource)
    return Draft202012Validator({"$ref": f"{_BASE}{FILE}#/schema"}, registry=registry)
