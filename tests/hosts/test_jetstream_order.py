"""Requests for one machine that are published back to back: the later one wins, whoever is faster."""

import asyncio
import threading

from support.functions import World, request
from support.jetstream import Producer, on, producer, until, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.machine import DeleteMachineRequest, DeleteMachineResult
from vsphere_functions.context import Context
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.steps import Steps

NAMES = [f"m-{n}" for n in range(100)]


async def publish_all(one: Producer, functions: tuple[str, str]) -> list[tuple[CloudEvent, CloudEvent]]:
    pairs = [(request(functions[0], name), request(functions[1], name)) for name in NAMES]
    for pair in pairs:
        for event in pair:
            await one.publish(event)
    await one.settled()
    return pairs


async def codes(one: Producer, events: list[CloudEvent]) -> set[str]:
    found = await asyncio.gather(*(one.result(event) for event in events))
    return {result.data.get("error", {}).get("code", "OK") for result in found}


def test_create_and_delete_back_to_back_leave_nothing_and_delete_and_create_leave_all(
    nats_server: NatsServer,
) -> None:
    """E21 and M09, with two workers."""

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


class Held(World):
    """The delete of m-2 takes until it may go on, and with it the worker's only place for deletes."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = threading.Event(), threading.Event()

    def delete_machine(self, request: DeleteMachineRequest, ctx: Context) -> Steps[DeleteMachineResult]:
        if request.machine_name == "m-2":
            self.reached.set()
            self.go.wait(100)
        return (yield from super().delete_machine(request, ctx))


def test_a_delete_that_a_later_create_has_overtaken_touches_nothing(nats_server: NatsServer) -> None:
    """E21, delete and create in the other order than they were published in."""

    async def run() -> None:
        world, configured = Held(), on(nats_server, slots=1)
        async with producer(nats_server, configured) as one, working(configured, world):
            await one.ask(request())
            await one.publish(request("delete_machine", "m-2"))
            await until(world.reached.is_set)
            overtaken = request("delete_machine")
            await one.publish(overtaken)
            assert "error" not in (await one.ask(request())).data
            world.go.set()
            assert await codes(one, [overtaken]) == {"FailedPrecondition"}
        assert world.machines == {"m-1"}

    asyncio.run(run())
