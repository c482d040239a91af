"""Messages that nobody well-meaning sends: none of them stops a worker, or comes back for ever."""

import asyncio
import json
import socket

import pytest

from support.functions import World, request
from support.jetstream import on, producer, ready, until, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import BATCH_TYPE, to_json
from vsphere_functions.local.nats_server import NatsServer

CREATE = "vsphere.request.default.create_machine"
STRUCTURED = b"Content-Type: application/cloudevents+json\r\n"


def publish(server: NatsServer, head: bytes, body: bytes, subject: str = CREATE) -> None:
    """Publish a message whose headers are these bytes, which no client would write."""
    sizes = f"{len(head)} {len(head) + len(body)}".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        message = b"HPUB " + subject.encode() + b" " + sizes + b"\r\n" + head + body + b"\r\nPING\r\n"
        connection.sendall(b'CONNECT {"verbose": false, "headers": true}\r\n' + message)
        said = b""
        while b"PONG" not in said:
            said += connection.recv(4096)


@pytest.mark.parametrize("status", [b"503", b"404", b"100"])
def test_a_request_with_a_header_status_is_a_request(nats_server: NatsServer, status: bytes) -> None:
    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            head = b"NATS/1.0\r\nStatus: " + status + b"\r\n" + STRUCTURED + b"\r\n"
            publish(nats_server, head, to_json(event))
            assert "providerID" in (await one.result(event)).data
            await one.settled()
            assert ready(workers[0])

    asyncio.run(run())


@pytest.mark.parametrize(
    "head",
    [
        b"NATS/1.0",
        b"NATS/1.0\r\nA:b",
        b"NATS/1.0 \xff\xfe\r\n\r\n",
        b"NATS/1.0\r\nX\x00: \x00\r\n\r\n",
        b"NATS/1.0\r\nBad/Name(x): 1\r\n\r\n",
        b"NATS/1.0\r\nX: \xff\r\n\r\n",
        b"NATS/1.0\r\ngarbage\r\n\r\n",
        b"NATS/1.0\r\n: empty\r\n\r\n",
    ],
)
def test_no_header_block_stops_a_worker_or_comes_back_for_ever(nats_server: NatsServer, head: bytes) -> None:
    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            publish(nats_server, head, b"{]")
            await until(lambda: one.on("dead"))
            await one.settled()
            assert "providerID" in (await one.ask(request())).data
            assert ready(workers[0])

    asyncio.run(run())


def test_a_batch_whose_event_grows_too_big_on_its_own_is_dead_lettered_whole(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        small = json.loads(to_json(event))
        large = json.dumps(small | {"id": "large", "data": "@"}).replace('"@"', f"[{'1e15,' * 180_000}1]")
        async with producer(nats_server, configured) as one, working(configured, world):
            body = f"[{json.dumps(small)},{large}]".encode()
            await one.raw(CREATE, body, {"Content-Type": BATCH_TYPE})
            await one.settled()
            await until(lambda: one.on("dead"))
            letter, *repeats = one.on("dead")  # the stream keeps one; a slow worker can say it twice
            assert letter.data == body
            assert "too big" in (letter.headers or {})["vsphere-reason"]
            assert all(repeat.data == body for repeat in repeats)
            assert not one.on("result"), "nothing is done by halves"

    asyncio.run(run())


@pytest.mark.parametrize("host", ["vc:99999", "vc:port", "[", "[::1", "https://"])
def test_a_host_that_is_none_is_an_invalid_argument(nats_server: NatsServer, host: str) -> None:
    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        secrets = {"vsphereHost": host, "vsphereUsername": "u", "vspherePassword": "p"}
        event = CloudEvent(
            id="odd-host", source="/p", type=event.type, data={**event.data, "secrets": secrets}
        )
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(event)
            assert result.data["error"]["code"] == "InvalidArgument"
            assert not world.effects

    asyncio.run(run())


def test_a_message_that_meets_an_unexpected_error_each_time_is_given_up(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        world, configured = World(), on(nats_server, ack_wait=1, attempts=2)
        async with producer(nats_server, configured) as one, working(configured, world):
            monkeypatch.setattr("vsphere_functions.hosts.nats_inbox.perform", break_down)
            await one.publish(request())
            await one.settled()
            await until(lambda: one.on("dead"))
            said = one.on("dead")[0].headers or {}
            assert (said["vsphere-code"], said["vsphere-attempts"]) == ("Internal", "2")
            monkeypatch.undo()
            assert "providerID" in (await one.ask(request())).data

    asyncio.run(run())
