"""The AsyncAPI document says what the code does, and all that it refers to is there."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from support.answering import AT, RESULTS
from support.described import DOCUMENT, SCHEMAS, looked_up, message_of, validator
from vsphere_events import results
from vsphere_events.asyncapi import FILE
from vsphere_events.client import request_event
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, Received, from_nats, to_nats
from vsphere_events.error import CallError
from vsphere_events.event_schemas import schema_name
from vsphere_events.functions import FUNCTIONS
from vsphere_events.outcome import Progress
from vsphere_events.queue import QueueState
from vsphere_events.schemas import FOLDER
from vsphere_events.subjects import (
    Kind,
    dead_subject,
    parse_event_type,
    progress_subject,
    queue_subject,
    request_subject,
    result_subject,
)
from vsphere_functions.local.examples import EXAMPLES

GOLDEN = [
    from_nats(None, path.read_bytes()) for path in sorted((Path(__file__).parent / "golden").glob("*.json"))
]


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a value, however deep."""
    if isinstance(value, dict):
        if isinstance(target := value.get("$ref"), str):
            yield target
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def fits(event: CloudEvent, mode: Mode, **changed: Any) -> bool:
    """Whether a NATS message with the event, some of its headers or members changed, is as the document says."""
    message = message_of(event, mode)
    headers, body = to_nats(event, mode)
    payload = json.loads(body)
    if mode is Mode.BINARY:
        headers |= {f"ce-{name}": value for name, value in changed.items()}
    else:
        payload |= changed
    return all(
        validator(message[part]).is_valid(value)
        for part, value in (("headers", headers), ("payload", payload))
    )


def events() -> Iterator[CloudEvent]:
    """Golden events, and one of each kind of each function."""
    for received in GOLDEN:
        assert isinstance(received, Received)
        yield received.event
    for name in FUNCTIONS:
        asked = request_event(
            name, EXAMPLES[name], extensions={"vcenter": "blue", "traceparent": "00-1-2-01"}
        )
        yield asked
        yield results.succeeded(name, asked, "blue", RESULTS[name], at=AT)
        yield results.failed(name, asked, "blue", CallError(Code.ABORTED, "later"), at=AT)
        yield results.progress(name, asked, "blue", Progress(step="a", message="b"), at=AT, number=1)


@pytest.mark.parametrize("mode", Mode)
def test_every_event_fits_the_message_of_its_channel(mode: Mode) -> None:
    assert [event for event in events() if not fits(event, mode)] == []


@pytest.mark.parametrize("mode", Mode)
def test_what_is_no_such_event_does_not_fit(mode: Mode) -> None:
    for event in events():
        assert not fits(event, mode, type="io.vspherefunctions.fly.request.v1")
        assert not fits(event, mode, specversion="0.3")
        if parse_event_type(event.type)[1] is Kind.REQUEST:
            assert not fits(event, mode, vcenter="Blue!")
        else:
            assert not fits(event, mode, causationsource="")


def test_a_structured_message_has_its_content_type_and_a_binary_one_its_attributes() -> None:
    for event in events():
        assert not validator(message_of(event, Mode.STRUCTURED)["headers"]).is_valid(
            {"Content-Type": "text/plain"}
        )
        headers, _ = to_nats(event, Mode.BINARY)
        for name in ("ce-specversion", "ce-id", "ce-source", "ce-type"):
            less = {key: value for key, value in headers.items() if key != name}
            assert not validator(message_of(event, Mode.BINARY)["headers"]).is_valid(less)


def test_the_state_of_a_queue_fits_its_message() -> None:
    described = validator(looked_up("#/components/messages/queue")["payload"])
    described.validate(QueueState(sequence=7, waiting=2).wire())
    assert not described.is_valid({"sequence": 7})


def test_the_correlation_lies_where_the_document_says() -> None:
    for event in events():
        function, kind = parse_event_type(event.type)
        for mode in Mode:
            headers, body = to_nats(event, mode)
            where = looked_up(message_of(event, mode)["correlationId"]["$ref"])["location"]
            place, _, name = where.removeprefix("$message.").partition("#/")
            found = {"header": headers, "payload": json.loads(body)}[place][name]
            assert found == (event.id if kind is Kind.REQUEST else event.extension("causationid")), function


def test_every_reference_leads_somewhere() -> None:
    found = set(references(DOCUMENT))
    for reference in found:
        assert looked_up(reference) is not None
    outside = {reference.partition("#")[0] for reference in found} - {""}
    assert {name.removeprefix("./") for name in outside} == SCHEMAS.keys()


def test_no_component_is_there_for_nothing() -> None:
    found = set(references(DOCUMENT))
    for kind, components in DOCUMENT["components"].items():
        assert all(re.fullmatch(r"[\w.-]+", name) for name in components)
        assert [name for name in components if f"#/components/{kind}/{name}" not in found] == []


def test_the_parameters_of_a_channel_are_those_of_its_address() -> None:
    for channel in DOCUMENT["channels"].values():
        assert re.findall(r"\{(\w+)\}", channel["address"]) == list(channel["parameters"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_addresses_are_the_subjects(name: str) -> None:
    addresses = {
        f"{name}.request": request_subject("blue", name),
        f"{name}.result": result_subject("blue", name, "req-1"),
        f"{name}.progress": progress_subject("blue", name, "req-1"),
        f"{name}.dead": dead_subject("blue", name),
        "queue": queue_subject("blue", name),
    }
    for key, subject in addresses.items():
        address = DOCUMENT["channels"][key]["address"]
        assert address.format(vcenter="blue", token="req-1", function=name) == subject


def test_a_function_receives_requests_and_replies_with_results() -> None:
    operations = DOCUMENT["operations"]
    for name in FUNCTIONS:
        assert operations[name]["action"] == "receive"
        assert operations[name]["channel"] == {"$ref": f"#/channels/{name}.request"}
        assert operations[name]["reply"] == {"channel": {"$ref": f"#/channels/{name}.result"}}
    assert {key for key, one in operations.items() if one["action"] == "receive"} == FUNCTIONS.keys()
    used = set(references(operations))
    assert used == {f"#/channels/{key}" for key in DOCUMENT["channels"]}


def test_schemas_mean_the_same_to_a_reader_of_draft_07() -> None:
    """AsyncAPI's own dialect is a superset of draft 07; the files are of 2020-12."""
    for event in events():
        function, kind = parse_event_type(event.type)
        old = Draft7Validator(SCHEMAS[schema_name(function, kind)])
        _, body = to_nats(event, Mode.STRUCTURED)
        whole = json.loads(body)
        assert old.is_valid(whole)
        assert not old.is_valid(whole | {"data": whole["data"] | {"bogus": 1}})


def test_the_files_are_the_same_whatever_the_order_of_sets() -> None:
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-m", "vsphere_events.schemas", "--check"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((FOLDER / FILE).read_text()) == DOCUMENT
