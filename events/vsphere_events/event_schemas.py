"""JSON Schemas of the events, made from the models: an envelope around a function's data."""

from typing import Any

from vsphere_events.functions import FUNCTIONS
from vsphere_events.model import Model
from vsphere_events.outcome import Failure, Progress
from vsphere_events.subjects import Kind, event_type

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_TIME: Schema = _TEXT | {"format": "date-time"}
_ATTRIBUTES: dict[str, Schema] = {
    "specversion": {"const": "1.0"},
    "id": _TEXT,
    "source": _TEXT | {"format": "uri-reference"},
    "type": _TEXT,
    "subject": _TEXT,
    "time": _TIME,
    "datacontenttype": _TEXT,
    "dataschema": _TEXT | {"format": "uri"},
    "traceparent": _TEXT,
    "tracestate": _TEXT,
}
_OF_A_REQUEST: dict[str, Schema] = {"vcenter": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"}}
_OF_A_REQUEST["expirytime"] = _TIME
_OF_AN_ANSWER: dict[str, Schema] = {
    "correlationid": _TEXT,
    "causationid": _TEXT,
    "causationsource": _TEXT,
}
_REQUIRED = ("specversion", "id", "source", "type")


def schemas() -> dict[str, Schema]:
    """Give every schema by file name: requests and successes per function, failed and progress for all."""
    made: dict[str, Schema] = {}
    for name, function in FUNCTIONS.items():
        for kind, model in ((Kind.REQUEST, function.request), (Kind.SUCCEEDED, function.result)):
            made[schema_name(name, kind)] = _schema({"const": event_type(name, kind)}, kind, model)
    for kind, model in ((Kind.FAILED, Failure), (Kind.PROGRESS, Progress)):
        types = {"enum": [event_type(name, kind) for name in FUNCTIONS]}
        made[f"{kind}.v1.json"] = _schema(types, kind, model)
    return made


def schema_name(function: str, kind: Kind) -> str:
    """Name the schema of an event: the key in `schemas()` and the file."""
    return f"{kind}.v1.json" if kind in {Kind.FAILED, Kind.PROGRESS} else f"{function}.{kind}.v1.json"


def attributes_of(kind: Kind) -> tuple[dict[str, Schema], tuple[str, ...]]:
    """Give the attributes of an event that have a meaning here, and the names of those it must have."""
    if kind is Kind.REQUEST:
        return _ATTRIBUTES | _OF_A_REQUEST, _REQUIRED
    return _ATTRIBUTES | _OF_AN_ANSWER, (*_REQUIRED, *_OF_AN_ANSWER)


def _schema(types: Schema, kind: Kind, model: type[Model]) -> Schema:
    """Describe an event in structured mode; its extensions are open, its data are not."""
    data = model.model_json_schema(by_alias=True)
    definitions = data.pop("$defs", {})
    attributes, required = attributes_of(kind)
    described = {name: one if name in required else _or_null(one) for name, one in attributes.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": described | {"type": types, "data": data},
        "required": [*required, "data"],
        "propertyNames": {"pattern": "^[a-z0-9]+$"},
        "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
        "$defs": definitions,
    }


def _or_null(schema: Schema) -> Schema:
    """Let an attribute be null, which in JSON says that it is absent."""
    return schema | {"type": [schema["type"], "null"]}
