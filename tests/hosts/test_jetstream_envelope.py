"""How events may be written, from a producer's bytes to the result, on a real server (E03 to E06)."""

import asyncio
import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from support.functions import World, request
from support.jetstream import Producer, on, producer, until, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, Received, from_nats, to_json, to_nats
from vsphere_functions.local.nats_server import NatsServer

CREATE = "vsphere.request.default.create_machine"
STRUCTURED = {"Content-Type": "application/cloudevents+json"}
ODD = "VM-Köln €/100%"


def members(**more: Any) -> dict[str, Any]:
    """A request as JSON, some of its members given or, with None, left out."""
    event: dict[str, Any] = json.loads(to_json(request()))
    return {name: value for name, value in (event | more).items() if value is not None}


def coded() -> str:
    return base64.b64encode(json.dumps(request().data).encode()).decode()


def answered(
    server: NatsServer, sent: list[tuple[bytes, dict[str, str]]]
) -> tuple[list[CloudEvent], list[bytes]]:
    """The results and the bodies of the dead letters of messages, as many as these."""

    async def run() -> tuple[list[CloudEvent], list[bytes]]:
        configured = on(server)
        async with producer(server, configured) as one, working(configured, World()):
            for body, headers in sent:
                await one.raw(CREATE, body, headers)
            await one.settled(60)
            await until(lambda: len(one.on("result")) + len(one.on("dead")) == len(sent), 60)
            return results(one), [letter.data for letter in one.on("dead")]

    def results(one: Producer) -> list[CloudEvent]:
        found = [from_nats(message.headers, message.data) for message in one.on("result")]
        return [received.event for received in found if isinstance(received, Received)]

    return asyncio.run(run())


def test_e03_data_in_base64_are_read_and_broken_or_double_ones_refused(nats_server: NatsServer) -> None:
    good = members(id="good", data=None, data_base64=coded())
    untyped = members(id="untyped", datacontenttype=None)
    broken = members(
        id="broken", data=None, data_base64=coded()[:8] + "!" + coded()[8:]
    )  # lax readers skip it
    both = members(id="both", data_base64=coded())
    sent = [json.dumps(one).encode() for one in (good, untyped, broken, both)]
    results, dead = answered(nats_server, [(body, STRUCTURED) for body in sent])
    assert {one.extensions["causationid"] for one in results} == {"good", "untyped"}
    assert all(one.type.endswith(".succeeded.v1") for one in results)
    assert sorted(dead) == sorted(sent[2:])


def test_e04_attributes_of_a_wrong_type_are_refused(nats_server: NatsServer) -> None:
    yesterday, nested = members(time="yesterday"), members(odd={"a": 1})
    fine = members(id="fine", flag=True, subject=None) | {"subject": None}
    sent = [json.dumps(one).encode() for one in (yesterday, nested, fine)]
    results, dead = answered(nats_server, [(body, STRUCTURED) for body in sent])
    assert [one.extensions["causationid"] for one in results] == ["fine"]
    assert sorted(dead) == sorted(sent[:2])


@pytest.mark.parametrize("written", [quote(ODD), ODD])
def test_e05_header_values_are_read_encoded_and_raw(nats_server: NatsServer, written: str) -> None:
    headers, body = to_nats(request(), Mode.BINARY)
    results, _ = answered(nats_server, [(body, headers | {"ce-id": written})])
    assert [one.extensions["causationid"] for one in results] == [ODD]


def test_e06_a_structured_event_needs_no_header_and_strays_do_no_harm(nats_server: NatsServer) -> None:
    strays, _ = to_nats(request(id="stray"), Mode.BINARY)
    sent = [
        (json.dumps(members(id="bare")).encode(), {}),
        (json.dumps(members(id="strays")).encode(), {**STRUCTURED, **strays}),
        (
            json.dumps(members(id="case")).encode(),
            {"CONTENT-type": "Application/CloudEvents+JSON; charset=UTF-8", **strays},
        ),
    ]
    results, dead = answered(nats_server, sent)
    assert {one.extensions["causationid"] for one in results} == {"bare", "strays", "case"}
    assert not dead
