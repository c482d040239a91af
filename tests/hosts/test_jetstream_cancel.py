"""A cancel has a consumer of its own, and slots that long creates do not fill."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from support.functions import World, request
from support.jetstream import on, producer, until, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.request.cancel_request import cancel_request


class Canceling(World):
    """A world that knows cancel_request too."""

    def catalogue(self) -> dict[str, Callable[[Any, Any], Any]]:
        return {**super().catalogue(), "cancel_request": cancel_request}


def cancel(event: CloudEvent) -> CloudEvent:
    return request("cancel_request", data={"source": event.source, "id": event.id})


def test_a_cancel_is_answered_while_creates_have_every_slot(nats_server: NatsServer) -> None:
    go = threading.Event()
    world = Canceling(between=lambda _: go.wait(60))
    configured = on(nats_server, slots=1)

    async def run() -> None:
        async with producer(nats_server, configured) as one, working(configured, world):
            running, queued = request(), request(name="m-2")
            await one.publish(running)
            await until(lambda: world.effects)
            await one.publish(queued)
            for event, state in ((queued, "absent"), (running, "open")):
                answered = await one.ask(cancel(event))
                assert isinstance(answered.data, dict)
                assert answered.data["state"] == state
            assert not await one.stored(running)
            go.set()
            for event in (running, queued):
                ended = await one.result(event, 60)
                assert isinstance(ended.data, dict)
                assert ended.data["error"]["code"] == "Canceled"

    asyncio.run(run())
    assert world.effects == ["create m-1"]
