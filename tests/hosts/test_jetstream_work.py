"""The worker on a real NATS server: each request comes to one effect and one result."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from nats.js.errors import NoStreamResponseError
from pydantic import SecretStr

from support.functions import UUID, World, request
from support.jetstream import Producer, on, producer, until, working
from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.envelope import BATCH_TYPE, Mode, to_json, to_nats
from vsphere_events.error import CallError
from vsphere_events.machine import Address
from vsphere_functions.context import Context
from vsphere_functions.hosts.nats_calls import size_of
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.settings import VCenter

CREATE = "vsphere.request.default.create_machine"


async def count(one: Producer, stream: str) -> int:
    return (await one.js.stream_info(stream)).state.messages


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
            steps = (
                [(note.headers or {})["ce-id"] for note in one.on("progress")] if mode is Mode.BINARY else []
            )
            assert steps == [f"{event.id}.progress.{n}" for n in (1, 2)[: len(steps)]]
        assert world.effects == ["create m-1"]

    asyncio.run(run())


def test_the_same_event_again_is_answered_from_the_record(nats_server: NatsServer) -> None:
    """E20: no second effect; its waiters hear the first answer again, and the stream keeps one."""

    async def run() -> None:
        world, configured, event = World(), on(nats_server), request()
        async with producer(nats_server, configured) as one, working(configured, world):
            await one.ask(event)
            await one.publish(event)
            await until(lambda: len(one.on("result")) == 2)
            first, second = one.on("result")
            assert first.data == second.data
            assert (first.headers or {})["ce-time"] == (second.headers or {})["ce-time"]
            await one.settled()
            assert await count(one, RESULTS) == 1
        assert world.effects == ["create m-1"]
        assert world.seen_states == [None], "it ran once"

    asyncio.run(run())


def test_four_parallel_deliveries_over_two_workers_end_in_one_effect_and_one_result(
    nats_server: NatsServer,
) -> None:
    async def run() -> None:
        world, configured, event = World(between=lambda _: time.sleep(0.3)), on(nats_server), request()
        async with producer(nats_server, configured) as one, working(configured, world, 2):
            await asyncio.gather(*(one.publish(event) for _ in range(4)))
            await one.result(event)
            await one.settled()
            assert await count(one, RESULTS) == 1
            assert await count(one, DEAD) == 0
            assert len({message.data for message in one.on("result")}) == 1
        assert world.effects == ["create m-1"]
        assert world.seen_states == [None], "it ran once"

    asyncio.run(run())


def test_long_work_runs_once(nats_server: NatsServer) -> None:
    """E01: four jobs longer than ack_wait/2 with two workers, and one of 4 times ack_wait."""

    async def run() -> None:
        world, configured = World(), on(nats_server, ack_wait=1, slots=1)
        places = threading.Semaphore(2)

        def work(_ctx: object) -> None:
            assert places.acquire(blocking=False), "a worker takes no more than it has slots for"
            time.sleep(4 if "create long" in world.effects[-1:] else 0.7)
            places.release()

        world.between = work
        async with producer(nats_server, configured) as one, working(configured, world, 2):
            jobs = [request(name=f"m-{n}") for n in range(4)]
            for job in jobs:
                await one.publish(job)
            for job in jobs:
                assert "error" not in (await one.result(job)).data
            await one.ask(request(name="long"))
            await one.settled()
            consumer = await one.js.consumer_info(REQUESTS, "default-create_machine")
            assert consumer.delivered is not None
            assert consumer.delivered.consumer_seq == 5, "each was delivered once"
        assert sorted(world.effects) == sorted([f"create m-{n}" for n in range(4)] + ["create long"])
        assert len(world.seen_states) == 5

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"{not json", {"Content-Type": "application/cloudevents+json"}),
        (b'{"machineName": "m"}', {"ce-specversion": "1.0", "ce-source": "/p", "ce-type": "x"}),
        (b"\xff\x00", {}),
    ],
    ids=["bad JSON", "no id", "bytes"],
)
def test_poison_is_dead_lettered_at_once_as_it_came(
    nats_server: NatsServer, body: bytes, headers: dict[str, str]
) -> None:
    """E02: original bytes, headers and reason; no result, no retry storm."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            sequence = await one.raw(CREATE, body, headers)
            await one.settled()
            await until(lambda: one.on("dead"))
            (letter,) = one.on("dead")
            assert letter.subject == "vsphere.dead.default.create_machine"
            assert letter.data == body
            said = letter.headers or {}
            assert headers.items() <= said.items()
            assert said["vsphere-reason"].startswith("not a CloudEvent")
            assert said["vsphere-code"] == "InvalidArgument"
            assert said["vsphere-attempts"] == "1"
            assert said["vsphere-sequence"] == str(sequence)
            assert said["vsphere-worker"]
            assert said["vsphere-time"].endswith("Z")
            assert said["vsphere-generation"] == "0"
            assert not one.on("result")

    asyncio.run(run())


@pytest.mark.parametrize(
    "kind",
    ["com.example.unknown", "io.vspherefunctions.delete_machine.request.v1"],
    ids=["unknown", "another function's"],
)
def test_an_event_of_another_type_is_refused_and_dead_lettered(nats_server: NatsServer, kind: str) -> None:
    """E02, unknown type."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        headers, body = to_nats(request(), Mode.BINARY)
        async with producer(nats_server, configured) as one, working(configured, world):
            await one.raw(CREATE, body, {**headers, "ce-type": kind})
            await one.settled()
            await until(lambda: one.on("result") and one.on("dead"))
            (result,) = one.on("result")
            assert json_text.loads(result.data)["error"]["code"] == "InvalidArgument"
            assert one.on("dead")[0].data == body
        assert not world.effects

    asyncio.run(run())


def test_a_request_for_another_vcenter_than_its_subjects_is_refused(nats_server: NatsServer) -> None:
    """E19."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(request(extensions={"vcenter": "other"}))
            assert result.data["error"]["code"] == "InvalidArgument"
            assert (await one.ask(request(extensions={"vcenter": "default"}))).data["providerID"]
        assert world.effects == ["create m-1"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "subject", ["vsphere.request.default.no_such", "vsphere.request.other.create_machine"]
)
def test_an_unknown_function_or_vcenter_is_an_error_for_its_publisher(
    nats_server: NatsServer, subject: str
) -> None:
    """E25: nothing is stored."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server)) as one:
            with pytest.raises(NoStreamResponseError):
                await one.raw(subject, b"{}")
            assert await one.waiting() == 0

    asyncio.run(run())


def test_all_violations_come_back_at_once_and_nothing_is_done(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(request(data={"machineName": "", "providerSpec": {"secret": "hunter2"}}))
            error = result.data["error"]
            assert error["code"] == "InvalidArgument"
            assert len(error["details"]) > 3
            assert "hunter2" not in json_text.dumps(result.data).decode()
            await one.settled()
            assert await count(one, DEAD) == 0
        assert not world.effects

    asyncio.run(run())


def test_two_sources_with_one_id_hear_only_their_own_answer(nats_server: NatsServer) -> None:
    """E23: nothing but a dead letter for the second."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            await one.ask(request(id="same"))
            await one.publish(request(id="same", source="/producers/other"))
            await one.publish(request(id="same", name="m-2"))
            await until(lambda: len(one.on("dead")) == 2)
            await one.settled()
            (result,) = one.on("result")
            assert (result.headers or {})["ce-causationsource"] == "/producers/test"
        assert world.effects == ["create m-1"]

    asyncio.run(run())


def test_a_batch_is_taken_apart(nats_server: NatsServer) -> None:
    """E07 over NATS; an event that nobody can take becomes a dead letter of its own."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        unknown = {"com.example.x", "io.vspherefunctions.fly.request.v1"}
        events = [request(name="m-1"), request("delete_machine", name="m-2")]
        events += [request(type=one) for one in unknown]
        body = b"[" + b",".join(to_json(event) for event in events) + b"]"
        async with producer(nats_server, configured) as one, working(configured, world):
            await one.raw(CREATE, body, {"Content-Type": BATCH_TYPE})
            for event in events[:2]:
                assert "error" not in (await one.result(event)).data
            await one.settled()
            await until(
                lambda: {json_text.loads(letter.data)["type"] for letter in one.on("dead")} == unknown
            )
        assert world.effects == ["create m-1"]

    asyncio.run(run())


def test_a_result_over_the_payload_limit_says_so_and_the_worker_goes_on(nats_server: NatsServer) -> None:
    """E08."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            world.addresses = (Address(type="InternalIP", address="10.0.0.1"),) * 25_000
            error = (await one.ask(request(extensions={"traceparent": "0" * 55}))).data
            assert error["error"]["code"] == "Internal"
            assert "payload limit" in error["error"]["message"]
            assert error["providerID"] == f"vsphere://eu-1/{UUID}"
            assert error["lastKnownState"] == "ready"
            world.addresses, world.state = (), "x" * 1_048_500
            error = (await one.ask(request(name="m-2"))).data
            assert (error["error"]["code"], error["lastKnownState"]) == ("Internal", None)
            world.state = "ready"
            assert (await one.ask(request(name="m-3"))).data["lastKnownState"] == "ready"

    asyncio.run(run())


@pytest.mark.parametrize("over", ["with its headers", "in its record"])
def test_a_result_that_fits_by_itself_is_too_big_where_it_has_to_go(
    nats_server: NatsServer, over: str
) -> None:
    """E08: 1,048,500 bytes, which headers bring over the limit; and what fits in a message, but in no record."""

    async def run() -> None:
        world, configured = World(), on(nats_server)
        async with producer(nats_server, configured) as one, working(configured, world):
            fine = await one.ask(request(name="m-1"))
            await until(lambda: one.on("result"))
            headers = size_of(one.on("result")[0].headers or {}, b"")
            message = one.client.max_payload - headers - 32  # the next id may be longer
            body = 1_048_500 if over == "with its headers" else message
            world.state = "x" * (body - len(json_text.dumps(fine.data)) + len("ready"))
            error = (await one.ask(request(name="m-2"))).data
            assert error["error"]["code"] == "Internal"
            assert "payload limit" in error["error"]["message"]
            assert error["providerID"] == f"vsphere://eu-1/{UUID}"
            world.state = "ready"
            assert (await one.ask(request(name="m-3"))).data["lastKnownState"] == "ready"
            assert world.seen_states == [None] * 3, "each ran once"

    asyncio.run(run())


def test_a_request_whose_time_has_passed_is_not_begun(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured = World(), on(nats_server)
        past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(request(extensions={"expirytime": past}))
            assert result.data["error"]["code"] == "DeadlineExceeded"
        assert not world.effects

    asyncio.run(run())


def test_what_would_be_tried_again_only_after_its_time_ends_with_what_happened(
    nats_server: NatsServer,
) -> None:
    """At once, with the state to go on from, and without a dead letter, which could not be sent again."""

    async def run() -> None:
        world, configured = World(), on(nats_server, retry_seconds=3600)
        world.failures = [CallError(Code.UNAVAILABLE, "away", last_known_state="half")]
        soon = (datetime.now(UTC) + timedelta(seconds=1800)).isoformat()
        async with producer(nats_server, configured) as one, working(configured, world):
            result = await one.ask(request(extensions={"expirytime": soon}))
            assert (result.data["error"]["code"], result.data["lastKnownState"]) == ("Unavailable", "half")
            await one.settled()
            assert await count(one, DEAD) == 0
        assert world.seen_states == [None]

    asyncio.run(run())


def test_what_only_reads_answers_afresh_each_time(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured = World(), on(nats_server)
        event = request("get_machine_status")
        async with producer(nats_server, configured) as one, working(configured, world):
            assert (await one.ask(event)).data["error"]["code"] == "NotFound"
            world.failures = [CallError(Code.UNAVAILABLE, "away")]
            await one.publish(event)
            await until(lambda: len(one.on("result")) == 2)
            assert json_text.loads(one.on("result")[1].data)["error"]["code"] == "Unavailable"

    asyncio.run(run())


def test_others_go_on_while_a_machine_is_busy(nats_server: NatsServer) -> None:
    """E26: the waiting request uses up no attempts and is no dead letter."""

    async def run() -> None:
        world, configured = World(), on(nats_server, attempts=1)
        go = threading.Event()
        world.between = lambda _: "m-1" in world.effects[-1] and go.wait(100)
        async with producer(nats_server, configured) as one, working(configured, world, 2):
            busy, waits, other = request(), request("delete_machine"), request(name="m-2")
            await one.publish(busy)
            await until(lambda: world.effects)
            await one.publish(waits)
            await one.ask(other)
            await until(lambda: redelivered(one, 6))
            assert await one.stored(waits) is None
            go.set()
            assert "error" not in (await one.result(waits)).data
            await one.settled()
            assert await count(one, DEAD) == 0
        assert world.effects == ["create m-1", "create m-2", "delete m-1"]

    async def redelivered(one: Producer, times: int) -> bool:
        info = await one.js.consumer_info("VSPHERE_REQUESTS", "default-delete_machine")
        return info.delivered is not None and info.delivered.consumer_seq >= times

    asyncio.run(run())


def test_a_machine_that_stays_busy_for_too_long_ends_the_wait(nats_server: NatsServer) -> None:
    """After limits.busy_seconds, with Aborted and a dead letter that no attempt is counted in."""

    async def run() -> None:
        world, configured = World(), on(nats_server, busy_seconds=0.5)
        go = threading.Event()
        world.between = lambda _: go.wait(60)
        async with producer(nats_server, configured) as one, working(configured, world):
            busy, waits = request(), request("delete_machine")
            await one.publish(busy)
            await until(lambda: world.effects, 60)
            error = (await one.ask(waits)).data["error"]
            assert (error["code"], error["message"]) == (
                "Aborted",
                "another request holds the machine or volume",
            )
            await until(lambda: one.on("dead"), 60)
            assert (one.on("dead")[0].headers or {})["vsphere-attempts"] == "0"
            go.set()
            assert "error" not in (await one.result(busy, 60)).data
        assert world.effects == ["create m-1"]

    asyncio.run(run())


def test_a_worker_takes_only_requests_of_its_own_vcenters(nats_server: NatsServer) -> None:
    async def run() -> None:
        both = on(nats_server)
        both = both.model_copy(update={"vcenters": {**both.vcenters, "other": both.vcenters["default"]}})
        own = both.model_copy(update={"worker": both.worker.model_copy(update={"vcenters": ("default",)})})
        async with producer(nats_server, both) as one, working(own, World()):
            await one.publish(request(name="m-2"), label="other")
            await one.ask(request())

            async def one_waits() -> bool:
                return await one.waiting() == 1

            await until(one_waits, 60)
            async with working(both, World()):
                await one.settled(60)

    asyncio.run(run())


def test_a_vcenter_that_hangs_keeps_no_other_ones_requests_waiting(nats_server: NatsServer) -> None:
    """Back-pressure: more requests than there are slots, all of which hang, and one for another vCenter."""

    async def run() -> None:
        go_on, hanging = threading.Event(), threading.Semaphore(0)

        def hang(ctx: Context) -> None:
            if ctx.label == "default":
                hanging.release()
                assert go_on.wait(60)

        world, configured = World(between=hang), on(nats_server, slots=4)
        labels = {
            "default": configured.vcenters["default"],
            "other": VCenter(url="https://127.0.0.1:9/b", user="u", password=SecretStr("p")),
        }
        configured = configured.model_copy(update={"vcenters": labels})
        async with producer(nats_server, configured) as one, working(configured, world):
            try:
                for number in range(12):
                    await one.publish(request(name=f"slow-{number}"))
                await until(lambda: hanging.acquire(blocking=False))
                await one.publish(request(name="quick"), label="other")
                await until(lambda: any(".other." in heard.subject for heard in one.on("result")), seconds=60)
                assert len(world.effects) <= 4 + 1
            finally:
                go_on.set()
            await one.settled(60)
        assert len(world.effects) == 13

    asyncio.run(run())
