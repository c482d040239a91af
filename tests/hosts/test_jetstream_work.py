"""The worker on a real NATS server: requests come to one effect and one result."""

import asyncio

import pytest

from support.functions import UUID, World, request
from support.jetstream import on, producer, working
from vsphere_events.envelope import Mode
from vsphere_functions.local.nats_server import NatsServer


@pytest.mark.parametrize("mode", list(Mode))
def test_a_request_is_answered_in_its_own_mode(nats_server: NatsServer, mode: Mode) -> None:
    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(event, mode)
            await one.settled()
            assert result.data["providerID"] == f"vsphere://eu-1/{UUID}"
            assert result.extensions["causationid"] == event.id
            (message,) = one.on("result")
            assert ("ce-id" in (message.headers or {})) == (mode is Mode.BINARY)
            assert [note.data for note in one.on("progress")]
        assert world.effects == ["create m-1"]

    asyncio.run(run())
