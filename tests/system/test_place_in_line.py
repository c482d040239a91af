"""A producer is told its place while its request waits for a slot."""

import asyncio

import pytest

from support.machines import SPEC
from vsphere_events.client import Client
from vsphere_functions.local.stack import Stack


@pytest.fixture
def limits() -> dict[str, object]:
    return {"creates_per_template": 1, "retry_seconds": 0.5}


def test_a_producer_sees_how_many_are_ahead_until_its_request_has_begun(
    vcsim_binary: object, limits: dict[str, object]
) -> None:
    assert vcsim_binary

    async def work(stack: Stack) -> None:
        async with Client.connected(stack.nats.url) as client:
            data = [{"machineName": f"worker-{number}", "providerSpec": SPEC} for number in range(4)]
            first = [asyncio.create_task(client.create_machine(one)) for one in data[:3]]
            await asyncio.sleep(0)
            seen: set[int | None] = set()
            async with client.send("create_machine", data[3]) as pending:
                assert pending.sequence > 0

                async def watch() -> None:
                    while True:
                        seen.add(pending.ahead)
                        await asyncio.sleep(0.01)

                watching = asyncio.create_task(watch())
                assert (await pending.result()).node_name == "worker-3"
                watching.cancel()
            await asyncio.gather(*first)
        told = {ahead for ahead in seen if ahead is not None}
        assert told
        assert max(told) <= 3

    with Stack(sections={"limits": limits}) as stack:
        stack.vcenter.control.delay(CloneVm=700)
        stack.start_worker()
        asyncio.run(work(stack))
