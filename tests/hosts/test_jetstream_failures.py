"""NATS that fills up, forbids, or loses its streams under the worker; vCenters that are away."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable

import httpx
import pytest
from nats.js.api import DiscardPolicy

from support.functions import World, request
from support.jetstream import Producer, on, producer, ready, starting, until, working
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS
from vsphere_functions.hosts.nats_setup import set_up, setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.settings import Nats, Settings, SettingsError


def test_a_dependency_that_is_down_is_asked_seldom_and_then_the_request_is_given_up(
    nats_server: NatsServer,
) -> None:
    """E18: growing delays; a progress event for each try, and with the last one dead letter and result."""

    async def run() -> None:
        world, configured, event = World(), on(nats_server, attempts=4, retry_seconds=0.05), request()
        world.failures = [CallError(Code.UNAVAILABLE, "vCenter is away", last_known_state="s")] * 9
        async with producer(nats_server, configured) as one, working(configured, world):
            begun = time.monotonic()
            result = await one.ask(event)
            taken = time.monotonic() - begun
            await one.settled()
            assert result.data["error"]["code"] == "Unavailable"
            assert result.data["lastKnownState"] == "s"
            assert taken > 0.8 * (0.05 + 0.2 + 0.8)
            assert world.seen_states == [None, "s", "s", "s"]
            notes = [note.headers or {} for note in one.on("progress")]
            assert [note["ce-id"] for note in notes] == [f"{event.id}.progress.{n}" for n in (1, 2, 3)]
            await until(lambda: one.on("dead"))
            assert (one.on("dead")[0].headers or {})["vsphere-attempts"] == "4"
            await one.publish(event)  # a producer asks again: the answer stands, and no second dead letter
            await until(lambda: len(one.on("result")) == 2)
            await one.settled()
            assert (await one.js.stream_info(DEAD)).state.messages == 1

    asyncio.run(run())


def test_the_log_tells_of_each_failure_with_its_code_and_its_request(
    nats_server: NatsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """What an operator has: tried again, given up, failed; nothing of a request that goes well."""
    telemetry.configure()

    async def run() -> None:
        world, configured = World(), on(nats_server, attempts=2)
        async with producer(nats_server, configured) as one, working(configured, world):
            world.failures = [CallError(Code.UNAVAILABLE, "away")] * 2
            await one.ask(request(id="dies"))
            world.failures = [CallError(Code.NOT_FOUND, "no such thing")]
            await one.ask(request(id="fails"))
            await one.ask(request(id="is-well"))
            await one.publish(request(id="is-well", name="m-2"))
            await until(lambda: len(one.on("dead")) == 2)

    asyncio.run(run())
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    told = [
        (line["request"], line["event"], line.get("code"), line["reason"], line["level"], line["function"])
        for line in lines
        if "request" in line and line["event"] != "audit"
    ]
    about, used = "create_machine", "this source has used the id for another request; take a new id"
    assert told == [
        ("dies", "a request will be tried again", "Unavailable", "away", "info", about),
        ("dies", "a request is given up", "Unavailable", "away", "warning", about),
        ("fails", "a request has failed", "NotFound", "no such thing", "info", about),
        ("is-well", "a request is dead-lettered", None, used, "warning", about),
    ]


async def delete_consumers(one: Producer) -> None:
    for consumer in await one.js.consumers_info(REQUESTS):
        await one.js.delete_consumer(REQUESTS, consumer.name)


async def delete_stream(one: Producer) -> None:
    await one.js.delete_stream(REQUESTS)


@pytest.mark.parametrize("delete", [delete_consumers, delete_stream])
def test_a_worker_whose_consumers_are_deleted_waits_quietly_and_is_well_after_setup(
    nats_server: NatsServer, delete: Callable[[Producer], Awaitable[None]]
) -> None:
    """E10: not ready, under five requests a second."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            await one.ask(request())
            await delete(one)
            await until(lambda: not ready(workers[0]))
            asked: list[str] = []

            async def count(message: object) -> None:
                asked.append(str(message))

            await one.client.subscribe("$JS.API.>", cb=count)
            await asyncio.sleep(3)  # a rate has to be watched for a while
            assert len(asked) < 5 * 3
            await set_up(one.client, configured)
            await until(lambda: ready(workers[0]))
            await one.ask(request(name="m-2"))

    asyncio.run(run())


def test_a_full_results_stream_makes_the_result_wait_and_nothing_is_done_twice(
    nats_server: NatsServer,
) -> None:
    """E11."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world) as workers:
            config = (await one.js.stream_info(RESULTS)).config
            await one.js.update_stream(config.evolve(max_msgs=1))
            await one.ask(request())
            event = request(name="m-2")
            await one.publish(event)
            await until(lambda: not ready(workers[0]))
            await one.js.update_stream(config.evolve(max_msgs=-1))
            await one.result(event)
            await until(lambda: ready(workers[0]))
        assert world.effects == ["create m-1", "create m-2"]
        assert world.seen_states == [None, None], "each ran once"

    asyncio.run(run())


FORBIDDING = """authorization {
  users = [
    {user: admin, password: p}
    {user: worker, password: p, permissions: {publish: {deny: ["vsphere.result.>"]}}}
  ]
}"""


def as_user(server: NatsServer, user: str, password: str = "p") -> Settings:
    section = Nats(url=(server.url,), user=user, password=password, ack_wait_seconds=2)
    return on(server).model_copy(update={"nats": section})


def status_of(settings: Settings) -> int:
    """What a worker ends with by itself; one that goes on is told to end, which gives 0."""
    late = threading.Timer(60, os.kill, (os.getpid(), signal.SIGTERM))
    late.start()
    try:
        return worker(settings, World().catalogue())
    finally:
        late.cancel()


def test_a_worker_that_may_not_publish_results_ends_with_one_clear_line(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """E12."""
    with NatsServer(config=FORBIDDING) as server:
        setup(as_user(server, "admin"))
        assert status_of(as_user(server, "worker")) == 1
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "forbids" in line]
    assert "vsphere.result." in json.loads(line)["reason"]


def test_wrong_credentials_end_a_worker_and_setup_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with NatsServer(config=FORBIDDING) as server:
        wrong = as_user(server, "worker", "wrong")
        assert status_of(wrong) == 1
        with pytest.raises(SettingsError, match="refuses the user"):
            setup(wrong)
    assert "NATS refuses the user or its credentials" in capfd.readouterr().err
    with pytest.raises(SettingsError, match="no servers available"):
        setup(wrong)


def test_a_worker_before_setup_says_what_is_missing_and_begins_afterwards(nats_server: NatsServer) -> None:
    """E17, the worker's: 200 while it lives; 503 with the part named until all is there."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with (
            starting(configured, world) as one,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{one.port}") as probe,
        ):
            assert (await probe.get("/healthz")).status_code == 200
            await until(lambda: "run setup" in one.problems().get("nats", ""))
            answer = await probe.get("/readyz")
            assert answer.status_code == 503
            assert "VSPHERE_REQUESTS: no stream takes" in answer.json()["problems"]["nats"]
            assert (await probe.get("/other")).status_code == 404
            assert (await probe.post("/healthz")).status_code == 404
            async with connected(configured) as client:
                await set_up(client, configured)
            await until(lambda: ready(one))
            nats_server.stop()
            await until(lambda: not ready(one))
            answer = await probe.get("/readyz")
            assert answer.json()["problems"]["nats"] == "not connected"
            assert "vcenter default" in answer.json()["problems"]
            assert (await probe.get("/healthz")).status_code == 200

    asyncio.run(run())


def test_a_worker_ends_while_it_still_waits_for_the_server(nats_server: NatsServer) -> None:
    async def run() -> None:
        nats_server.stop()
        async with starting(on(nats_server), World()) as one:
            assert one.problems()["nats"] == "not connected"

    asyncio.run(run())


def test_consumers_that_were_set_up_otherwise_are_named(nats_server: NatsServer) -> None:
    async def run() -> None:
        drifted = on(nats_server, ack_wait=3)
        async with producer(nats_server, on(nats_server)) as p, starting(drifted, World()) as one:
            await until(lambda: "waits 2 s where the settings say 3" in one.problems().get("nats", ""))
            await set_up(p.client, drifted)
            await until(lambda: ready(one))

    asyncio.run(run())


def test_setup_keeps_the_bounds_that_an_operator_has_set(nats_server: NatsServer) -> None:
    configured = on(nats_server)

    async def run() -> None:
        async with producer(nats_server, configured) as one:
            for stream in (REQUESTS, RESULTS, DEAD):
                config = (await one.js.stream_info(stream)).config
                await one.js.update_stream(config.evolve(max_bytes=1 << 30))
            await set_up(one.client, configured)
            for stream in (REQUESTS, RESULTS, DEAD):
                config = (await one.js.stream_info(stream)).config
                assert (config.max_bytes, config.discard) == (1 << 30, DiscardPolicy.NEW)

    asyncio.run(run())


def test_setup_keeps_the_subjects_of_another_installation(nats_server: NatsServer) -> None:
    configured = on(nats_server)
    other = configured.model_copy(update={"vcenters": {"other": configured.vcenters["default"]}})
    setup(configured)
    setup(other)
    setup(configured)

    async def subjects() -> list[str]:
        async with connected(configured) as client:
            return (await client.jetstream().stream_info(REQUESTS)).config.subjects or []

    found = asyncio.run(subjects())
    assert "vsphere.request.other.create_machine" in found
    assert "vsphere.request.default.create_machine" in found


def test_setup_without_a_section_or_a_vcenter_is_refused(nats_server: NatsServer) -> None:
    with pytest.raises(SettingsError, match="nats: is required"):
        setup(on(nats_server).model_copy(update={"nats": None}))
    with pytest.raises(SettingsError, match="vcenters"):
        setup(on(nats_server).model_copy(update={"vcenters": {}}))
