"""The AsyncAPI 3 document: the workers' channels and what is on them, made from the tables of the contract."""

import inspect
from typing import Any

from vsphere_events.cloud_event import JSON
from vsphere_events.code import Code
from vsphere_events.envelope import STRUCTURED_TYPE, Mode
from vsphere_events.event_schemas import attributes_of, schema_name
from vsphere_events.functions import FUNCTIONS, Function
from vsphere_events.model import Model
from vsphere_events.outcome import Failure, Progress
from vsphere_events.queue import QueueState
from vsphere_events.subjects import QUEUE, Channel, Kind, event_type

FILE = "asyncapi.json"

Object = dict[str, Any]

_KINDS = {
    Channel.REQUEST: (Kind.REQUEST,),
    Channel.RESULT: (Kind.SUCCEEDED, Kind.FAILED),
    Channel.PROGRESS: (Kind.PROGRESS,),
    Channel.DEAD: (),  # whatever was sent
}
_SAID_OF_THE_DEAD = ("reason", "attempts", "worker", "time", "sequence", "generation")
_PLACE = {Mode.STRUCTURED: "payload#/", Mode.BINARY: "header#/ce-"}
_PARAMETERS: Object = {
    "vcenter": {"description": "A vCenter that the workers' settings name.", "default": "default"},
    "token": {
        "description": "The request's id when that is 1 to 64 letters, digits, dashes and underscores not starting "
        "with an underscore, else the first 32 hex digits of its SHA-256.",
        "examples": ["req-1"],
    },
}
_DEAD_MESSAGE: Object = {
    "summary": "A request that was given up: its headers and payload as they came, and why beside them.",
    "headers": {
        "type": "object",
        "properties": {"vsphere-code": {"enum": [str(code) for code in Code]}}
        | {f"vsphere-{name}": {"type": "string"} for name in _SAID_OF_THE_DEAD},
        "required": ["vsphere-code", *(f"vsphere-{name}" for name in _SAID_OF_THE_DEAD)],
    },
    "payload": {"description": "Whatever it was; a dead letter need not have been an event."},
}
_QUEUE_MESSAGE: Object = {
    "summary": "How far a queue has come, about once a second while requests are in it.",
    "contentType": JSON,
    "payload": QueueState.model_json_schema(by_alias=True),
}


def document() -> Object:
    """Describe the workers, who receive requests and send the rest; schemas lie beside the document."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "vsphere-functions",
            "version": "1",
            "description": "Machines and volumes on vSphere: requests and their answers as CloudEvents 1.0 over "
            "NATS. The requests lie in the stream VSPHERE_REQUESTS, which confirms each of them to its "
            "publisher, results in VSPHERE_RESULTS, dead letters in VSPHERE_DEAD; progress is plain NATS.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": STRUCTURED_TYPE,
        "servers": {
            "nats": {
                "host": "{host}",
                "protocol": "nats",
                "variables": {"host": {"default": "localhost:4222"}},
            }
        },
        "channels": {f"{name}.{channel}": _channel(name, channel) for name in FUNCTIONS for channel in _KINDS}
        | {"queue": _queue()},
        "operations": {key: one for name in FUNCTIONS for key, one in _operations(name).items()}
        | {"queue": {"action": "send", "channel": _ref("channels", "queue")}},
        "components": {
            "schemas": _schemas(),
            "messages": _messages(),
            "parameters": _PARAMETERS,
            "correlationIds": {
                f"{of}.{mode}": {"location": f"$message.{_PLACE[mode]}{attribute}"}
                for of, attribute in (("request", "id"), ("answer", "correlationid"))
                for mode in Mode
            },
        },
    }


def _channel(name: str, channel: Channel) -> Object:
    with_token = channel in {Channel.RESULT, Channel.PROGRESS}
    keys = {f"{kind}.{mode}": _message_key(name, kind, mode) for kind in _KINDS[channel] for mode in Mode}
    return {
        "address": f"vsphere.{channel}.{{vcenter}}.{name}" + (".{token}" if with_token else ""),
        "messages": {
            key: _ref("components", "messages", message)
            for key, message in (keys or {"dead": "dead"}).items()
        },
        "parameters": {
            parameter: _ref("components", "parameters", parameter)
            for parameter in ("vcenter", "token")
            if parameter == "vcenter" or with_token
        },
    }


def _queue() -> Object:
    return {
        "address": f"vsphere.{Channel.PROGRESS}.{{vcenter}}.{{function}}.{QUEUE}",
        "messages": {"queue": _ref("components", "messages", "queue")},
        "parameters": {
            "vcenter": _ref("components", "parameters", "vcenter"),
            "function": {"enum": list(FUNCTIONS)},
        },
    }


def _operations(name: str) -> Object:
    return {
        name: {
            "action": "receive",
            "summary": _doc(FUNCTIONS[name].request),
            "channel": _ref("channels", f"{name}.{Channel.REQUEST}"),
            "reply": {"channel": _ref("channels", f"{name}.{Channel.RESULT}")},
        }
    } | {
        f"{name}.{channel}": {"action": "send", "channel": _ref("channels", f"{name}.{channel}")}
        for channel in (Channel.PROGRESS, Channel.DEAD)
    }


def _messages() -> Object:
    """Describe what is on the channels; failed and progress events look alike whatever the function."""
    answers = {"queue": _QUEUE_MESSAGE, "dead": _DEAD_MESSAGE}
    for mode in Mode:
        for name, function in FUNCTIONS.items():
            for kind in (Kind.REQUEST, Kind.SUCCEEDED):
                types: Object = {"const": event_type(name, kind)}
                answers[_message_key(name, kind, mode)] = _message(_model(function, kind), kind, mode, types)
        for kind in (Kind.FAILED, Kind.PROGRESS):
            types = {"enum": [event_type(name, kind) for name in FUNCTIONS]}
            answers[_message_key("", kind, mode)] = _message(_model(None, kind), kind, mode, types)
    return answers


def _message(model: type[Model], kind: Kind, mode: Mode, types: Object) -> Object:
    headers = _ref("components", "schemas", _headers_key(kind, mode))
    of = "request" if kind is Kind.REQUEST else "answer"
    about = {"summary": _doc(model), "correlationId": _ref("components", "correlationIds", f"{of}.{mode}")}
    if mode is Mode.STRUCTURED:
        payload = _ref("components", "schemas", f"{model.__name__}Event")
        return about | {"contentType": STRUCTURED_TYPE, "headers": headers, "payload": payload}
    return about | {
        "contentType": JSON,
        "headers": {"allOf": [headers, {"type": "object", "properties": {"ce-type": types}}]},
        "payload": _ref("components", "schemas", model.__name__),
    }


def _schemas() -> Object:
    """Name the schemas of data and events, which lie in files, and those of headers."""
    found: Object = {
        _headers_key(kind, mode): _headers(kind, mode)
        for kind in (Kind.REQUEST, Kind.SUCCEEDED)
        for mode in Mode
    }
    for name, function in FUNCTIONS.items():
        for kind in Kind:
            model, file = _model(function, kind), f"./{schema_name(name, kind)}"
            found[model.__name__] = {"$ref": f"{file}#/properties/data"}
            found[f"{model.__name__}Event"] = {"$ref": file}
    return found


def _headers(kind: Kind, mode: Mode) -> Object:
    """Describe NATS headers, whose names matter to the letter; in binary mode they are the attributes."""
    if mode is Mode.STRUCTURED:
        return {"type": "object", "properties": {"Content-Type": {"const": STRUCTURED_TYPE}}}
    attributes, required = attributes_of(kind)
    return {
        "type": "object",
        "description": "Values are percent-encoded, as the NATS binding of CloudEvents says.",
        "properties": {f"ce-{name}": schema for name, schema in attributes.items()},
        "required": [f"ce-{name}" for name in required],
    }


def _headers_key(kind: Kind, mode: Mode) -> str:
    return f"{'Request' if kind is Kind.REQUEST else 'Answer'}{mode.title()}Headers"


def _message_key(name: str, kind: Kind, mode: Mode) -> str:
    shared = kind in {Kind.FAILED, Kind.PROGRESS}
    return f"{kind}.{mode}" if shared else f"{name}.{kind}.{mode}"


def _model(function: Function | None, kind: Kind) -> type[Model]:
    if function and kind in {Kind.REQUEST, Kind.SUCCEEDED}:
        return function.request if kind is Kind.REQUEST else function.result
    return Failure if kind is Kind.FAILED else Progress


def _doc(model: type[Model]) -> str:
    return " ".join((inspect.getdoc(model) or "").partition("\n\n")[0].split())


def _ref(*path: str) -> Object:
    return {"$ref": "/".join(("#", *path))}
