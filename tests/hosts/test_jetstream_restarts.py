"""A NATS server that goes and comes back, whatever the worker is doing."""

import asyncio
import threading
from typing import Any

import pytest

from support.functions import World, request
from support.jetstream import on, producer, ready, until, working
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.hosts.nats_names import DEAD, RESULTS
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime import telemetry


@pytest.mark.parametrize("when", ["idle", "working", "finishing"])
def test_a_restart_of_the_server_leaves_one_effect_and_one_result(
    nats_server: NatsServer, when: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """E09; the log tells when it is over."""
    telemetry.configure()

    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        reached, go = threading.Event(), threading.Event()

        def wait(_ctx: object) -> None:
            reached.set()
            go.wait(100)

        if when != "idle":
            world.between = wait
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            if when == "idle":
                nats_server.kill()  # an orderly end would tell those who wait for requests
                await until(lambda: not one.client.is_connected and not ready(workers[0]))
                nats_server.start()
                await until(lambda: one.client.is_connected)
                await one.publish(event)
            else:
                await one.publish(event)
                await asyncio.to_thread(reached.wait, 10)
                nats_server.stop()
                await until(lambda: not ready(workers[0]))
                if when == "finishing":
                    go.set()  # it wants to store its result now
                    await until(lambda: len(world.effects) == 1)
                nats_server.start()
                go.set()
            assert (await one.result(event, 30)).data["providerID"]
            await until(lambda: ready(workers[0]))
            await one.settled()
            assert (await one.js.stream_info(RESULTS)).state.messages == 1
        assert world.effects == ["create m-1"]

    asyncio.run(run())
    assert "NATS answers again" in capfd.readouterr().err


@pytest.mark.parametrize("when", ["publishing", "acknowledging"])
def test_a_restart_while_a_request_is_finished_leaves_one_result_and_runs_nothing_again(
    nats_server: NatsServer, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E09: the result is in the record, or in the stream as well, when the server goes."""
    publish, gone = Outbox.result, asyncio.Event()

    async def finishing(self: Outbox, *rest: Any) -> None:
        if when == "acknowledging":
            await publish(self, *rest)
        if not gone.is_set():
            await asyncio.to_thread(nats_server.stop)
            gone.set()
        if when == "publishing":
            await publish(self, *rest)

    monkeypatch.setattr(Outbox, "result", finishing)

    async def run() -> None:
        world, configured, event = World(), on(nats_server, ack_wait=1), request()
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            await one.publish(event)
            await until(gone.is_set, 60)
            await until(lambda: not ready(workers[0]))
            nats_server.start()
            assert (await one.result(event, 60)).data["providerID"]
            await one.settled(60)
            assert (await one.js.stream_info(RESULTS)).state.messages == 1
        assert world.seen_states == [None], "it ran once"

    asyncio.run(run())


@pytest.mark.parametrize("stored", [False, True])
def test_a_restart_at_a_dead_letter_leaves_one_letter_and_one_result(
    nats_server: NatsServer, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E09, for what is given up: its record says so when the server goes, and its letter may be stored."""
    write, gone = Outbox.dead, asyncio.Event()

    async def writing(self: Outbox, *rest: Any, **named: Any) -> None:
        if stored:
            await write(self, *rest, **named)
        if not gone.is_set():
            await asyncio.to_thread(nats_server.stop)
            gone.set()
        if not stored:
            await write(self, *rest, **named)

    monkeypatch.setattr(Outbox, "dead", writing)

    async def run() -> None:
        world, configured, event = World(), on(nats_server, ack_wait=1, attempts=1), request()
        world.failures = [CallError(Code.UNAVAILABLE, "away")]
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            await one.publish(event)
            await until(gone.is_set, 60)
            await until(lambda: not ready(workers[0]))
            nats_server.start()
            assert (await one.result(event, 60)).data["error"]["code"] == "Unavailable"
            await one.settled(60)
            for stream in (DEAD, RESULTS):
                assert (await one.js.stream_info(stream)).state.messages == 1
        assert world.seen_states == [None], "it ran once"

    asyncio.run(run())
