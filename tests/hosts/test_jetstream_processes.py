"""Worker processes that are killed, stopped and told to end at the worst moments."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import Popen

import pytest
from nats.js.errors import NoKeysError

from support.functions import request
from support.jetstream import Producer, on, producer, until
from support.worker_process import FileWorld, launch
from vsphere_functions.hosts.nats_names import RESULTS
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import Bucket

Begin = Callable[..., Popen[str]]


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    return FileWorld(tmp_path)


@contextmanager
def processes(configured: Settings, world: FileWorld) -> Iterator[Begin]:
    """Start workers; none outlives the block."""
    begun: list[Popen[str]] = []

    def begin(**more: str) -> Popen[str]:
        begun.append(launch(configured, world.folder, **more))
        return begun[-1]

    try:
        yield begin
    finally:
        for process in begun:
            process.kill()
            process.wait()


def on_stage(
    server: NatsServer, world: FileWorld, play: Callable[[Producer, Begin], Awaitable[None]], **limits: int
) -> None:
    async def run() -> None:
        configured = on(server, ack_wait=1, **limits)
        with processes(configured, world) as begin:
            async with producer(server, configured) as one:
                await play(one, begin)

    asyncio.run(run())


def test_a_killed_workers_request_is_taken_over_with_the_recorded_state(
    nats_server: NatsServer, world: FileWorld
) -> None:
    """E14: one effect, one result, after the lease has run out."""

    async def play(one: Producer, begin: Begin) -> None:
        (world.folder / "blind").touch()
        first, event = begin(), request()
        await one.publish(event)
        await until(lambda: len(one.on("progress")) == 1)
        first.kill()
        (world.folder / "blind").unlink()
        begin()
        assert (await one.result(event)).data["providerID"]
        await one.settled()
        assert world.effects() == ["create m-1", "resumed cloned"]
        assert len(one.on("result")) == 1

    on_stage(nats_server, world, play)


@pytest.mark.parametrize("at", ["stored", "published"])
def test_a_worker_killed_while_finishing_is_followed_by_the_same_answer(
    nats_server: NatsServer, world: FileWorld, at: str
) -> None:
    """E24: one message in the stream, each waiter hears it, and it is the first answer."""

    async def play(one: Producer, begin: Begin) -> None:
        (world.folder / "effects").write_text("create m-1\n")
        dying, event = begin(CRASH=at), request("delete_machine")
        await one.publish(event)
        await asyncio.to_thread(dying.wait, 60)
        begin()
        await one.settled()
        heard = one.on("result")
        assert len(heard) == (2 if at == "published" else 1)
        assert len({message.data for message in heard}) == 1
        assert len((await one.result(event)).data["detachedVolumes"]) == 1
        assert (await one.js.stream_info(RESULTS)).state.messages == 1
        assert world.effects() == ["create m-1", "delete m-1"]

    on_stage(nats_server, world, play)


def test_a_worker_told_to_end_hands_its_work_over(nats_server: NatsServer, world: FileWorld) -> None:
    """E13: exit 0 at the next step, at once for a second worker, and no try is counted."""

    async def play(one: Producer, begin: Begin) -> None:
        (world.folder / "hold").touch()
        first, event = begin(), request()
        await one.publish(event)
        await until(lambda: len(one.on("progress")) > 2)
        first.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(first.wait, 60) == 0
        held: list[str] = []
        with suppress(NoKeysError):  # on a slow machine the slots have run out by now
            held = await (await one.js.key_value(Bucket.LEASES)).keys()
        assert all(key.startswith("slot.") for key in held), "the machine is free; slots await the next try"
        assert await one.waiting() == 1
        (world.folder / "hold").unlink()
        begin()
        assert (await one.result(event)).data["providerID"]
        await one.settled()
        assert world.effects() == ["create m-1", "resumed waits"]

    on_stage(nats_server, world, play, attempts=1)


def test_a_worker_that_cannot_reach_its_next_step_ends_all_the_same(
    nats_server: NatsServer, world: FileWorld
) -> None:
    """The function hangs: the process ends after its drain time, with 0, and its lease runs out by itself."""

    async def run() -> None:
        configured = on(nats_server, ack_wait=1)
        brief = configured.worker.model_copy(update={"drain_seconds": 0.5})
        configured = configured.model_copy(update={"worker": brief})
        with processes(configured, world) as begin:
            async with producer(nats_server, configured) as one:
                (world.folder / "blind").touch()
                first, event = begin(), request()
                await one.publish(event)
                await until(world.effects)
                first.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(first.wait, 60) == 0
                (world.folder / "blind").unlink()
                begin()
                assert (await one.result(event)).data["providerID"]

    asyncio.run(run())


def test_a_stopped_worker_changes_nothing_once_another_has_taken_over(
    nats_server: NatsServer, world: FileWorld
) -> None:
    """E22: stopped between find and clone, it wakes up after another has created and deleted."""

    async def play(one: Producer, begin: Begin) -> None:
        (world.folder / "stop").touch()
        stopped, create, delete = begin(), request(), request("delete_machine")
        await one.publish(create)
        await until(lambda: not (world.folder / "stop").exists())
        begin()
        assert (await one.result(create, 60)).data["providerID"]
        await one.publish(delete)
        assert (await one.result(delete, 60)).data["detachedVolumes"]
        (world.folder / "woken").touch()
        stopped.send_signal(signal.SIGCONT)
        await one.settled()
        again = request(name="m-2")  # the one that woke up can still work, and had its chance by then
        await one.ask(again)
        stopped.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(stopped.wait, 60) == 0
        assert [line for line in world.effects() if "m-1" in line] == ["create m-1", "delete m-1"]
        # What still lay in its connection it answers from the record, as the other worker did.
        assert (
            len({message.data for message in one.on("result") if create.id in message.subject.split(".")})
            == 1
        )
        assert (await one.js.stream_info(RESULTS)).state.messages == 3

    on_stage(nats_server, world, play)


def test_a_worker_stopped_in_its_work_says_nothing_when_it_wakes_up(
    nats_server: NatsServer, world: FileWorld
) -> None:
    """Its record and lease are another's by then: no result and no progress of its own.

    What still lies in its connection it answers from the record, as the other worker did.
    """

    async def play(one: Producer, begin: Begin) -> None:
        (world.folder / "blind").touch()
        stopped, event = begin(), request()
        await one.publish(event)
        await until(lambda: len(one.on("progress")) == 1, 60)
        stopped.send_signal(signal.SIGSTOP)
        (world.folder / "blind").unlink()
        begin()
        result = await one.result(event, 60)
        await one.settled(60)
        told = len(one.on("progress"))
        stopped.send_signal(signal.SIGCONT)
        await until(lambda: "another worker has taken over" in (world.folder / "log").read_text(), 60)
        assert await one.stored(event) == result
        assert len({message.data for message in one.on("result")}) == 1
        assert len(one.on("progress")) == told
        assert world.effects()[0] == "create m-1"
        assert len(world.effects()) == 2, "made once, resumed once"
        assert (await one.js.stream_info(RESULTS)).state.messages == 1

    on_stage(nats_server, world, play)


def test_a_crash_loop_ends_with_the_attempts(nats_server: NatsServer, world: FileWorld) -> None:
    """Attempts count at the claim: a request that kills each worker is given up, dead letter and all."""

    async def play(one: Producer, begin: Begin) -> None:
        event = request()
        (world.folder / "blind").touch()
        await one.publish(event)
        for attempt in range(1, 6):
            process = begin()
            await until(partial(one.heard_of_progress, attempt), 60)
            process.kill()
        begin()
        result = await one.result(event)
        assert result.data["error"]["code"] == "Unknown"
        assert result.data["lastKnownState"].startswith("cloned")
        await one.settled()
        assert (one.on("dead")[0].headers or {})["vsphere-attempts"] == "5"

    on_stage(nats_server, world, play)
