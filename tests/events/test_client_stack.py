"""The clients against the whole stack: NATS, a worker, a simulated vCenter."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from vsphere_events.client import Client, SyncClient
from vsphere_events.code import Code
from vsphere_events.envelope import Mode
from vsphere_events.error import CallError
from vsphere_events.machine import Phase, PowerState
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Stack

LIST = example("list_machines") | {"pageSize": 1}


@pytest.fixture(scope="module")
def stack(vcsim_binary: Path) -> Iterator[Stack]:
    assert vcsim_binary.is_file()
    with Stack() as stack:
        stack.start_worker()
        yield stack


def test_a_script_creates_follows_lists_shuts_down_and_deletes(stack: Stack) -> None:
    with SyncClient(stack.nats.url, source="/producers/script") as client:
        with client.send("create_machine", example("create_machine", "worker-1")) as pending:
            steps = [said.step for said in pending]
            first = pending.result()
        assert (steps[0], steps[-1]) == ("clone", "ready")
        second = client.create_machine(example("create_machine", "worker-2"))
        found = client.list_all_machines(LIST)
        assert found.machine_list == {str(first.provider_id): "worker-1", str(second.provider_id): "worker-2"}
        told: list[str] = []
        down = client.shut_down_machine(
            example("shut_down_machine", "worker-2"), on_progress=lambda said: told.append(said.message)
        )
        assert down.power_state is PowerState.OFF
        assert told
        status = client.get_machine_status(example("get_machine_status", "worker-2"))
        assert (status.phase, status.provider_id) == (Phase.STOPPED, second.provider_id)
        for name in ("worker-1", "worker-2"):
            client.delete_machine(example("delete_machine", name))
        with pytest.raises(CallError) as raised:
            client.get_machine_status(example("get_machine_status", "worker-2"))
        assert raised.value.code is Code.NOT_FOUND
        assert client.list_all_machines(LIST).machine_list == {}


@pytest.mark.parametrize("mode", Mode)
def test_coroutines_share_a_client_in_either_mode(stack: Stack, mode: Mode) -> None:
    names = [f"{mode}-{number}" for number in range(3)]

    async def work() -> None:
        async with Client.connected(stack.nats.url, mode=mode) as client:
            made = await asyncio.gather(
                *(client.create_machine(example("create_machine", name)) for name in names)
            )
            found = await client.list_all_machines(LIST)
            assert found.machine_list == {
                str(one.provider_id): name for one, name in zip(made, names, strict=True)
            }
            await asyncio.gather(*(client.delete_machine(example("delete_machine", name)) for name in names))

    asyncio.run(work())
