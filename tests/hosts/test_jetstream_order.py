"""Requests for one machine that are published back to back: the later one wins, whoever is faster."""

import asyncio

from support.functions import World, request
from support.jetstream import Producer, on, producer, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.nats_server import NatsServer

NAMES = [f"m-{n}" for n in range(100)]


async def publish_all(one: Producer, functions: tuple[str, str]) -> list[tuple[CloudEvent, CloudEvent]]:
    pairs = [(request(functions[0], name), request(functions[1], name)) for name in NAMES]
    for pair in pairs:
        for event in pair:
            await one.publish(event)
    await one.settled(40)
    return pairs


async def codes(one: Producer, events: list[CloudEvent]) -> set[str]:
    found = await asyncio.gather(*(one.result(event) for event in events))
    return {result.data.get("error", {}).get("code", "OK") for result in found}


def test_create_and_delete_back_to_back_leave_nothing_and_delete_and_create_leave_all(
    nats_server: NatsServer,
) -> None:
    """E21, with two workers."""

    async def run() -> None:
        world, configured = World(), on(nats_server, slots=8)
        async with producer(nats_server, configured) as one, working(configured, world, 2):
            pairs = await publish_all(one, ("create_machine", "delete_machine"))
            assert world.machines == set()
            assert await codes(one, [create for create, _ in pairs]) <= {"OK", "Canceled"}
            assert await codes(one, [delete for _, delete in pairs]) == {"OK"}

            pairs = await publish_all(one, ("delete_machine", "create_machine"))
            assert world.machines == set(NAMES)
            assert await codes(one, [create for _, create in pairs]) == {"OK"}
            assert await codes(one, [delete for delete, _ in pairs]) <= {"OK", "FailedPrecondition"}

    asyncio.run(run())
