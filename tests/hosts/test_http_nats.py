"""The HTTP host beside workers: one record for a request whichever way it comes, every result in the stream."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_host import HttpHost, linked, request, result_of, until
from support.jetstream import Producer, producer, ready
from support.jetstream import until as come_about
from support.machines import vms
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, from_nats
from vsphere_events.subjects import request_token
from vsphere_functions.hosts.dead_letters import DeadLetters
from vsphere_functions.hosts.jetstream import Worker
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_names import DEAD, RESULTS
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.hosts.redrive import redrive
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket


def problems(host: HttpHost) -> dict[str, str]:
    found: dict[str, str] = host.client.get("/readyz").json().get("problems", {})
    return found


@pytest.mark.parametrize("mode", Mode)
def test_a_result_given_over_http_is_in_the_stream_and_a_worker_replays_it(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path, mode: Mode
) -> None:
    """Stored, published, answered: the order of `nats.md`, with the answer in place of the acknowledgement."""

    async def run() -> None:
        event = request("create_machine")
        with linked(tmp_path, nats_server, vcenter, "create_machine") as (host, configured):
            async with producer(nats_server, configured) as one:
                answered = await asyncio.to_thread(host.call, event, mode)
                assert await one.stored(event) == answered
                assert {said.data["step"] for said in progress(one.on("progress"))} >= {"clone", "power_on"}
                worker = Worker(configured)
                work = asyncio.create_task(worker.run())
                await come_about(lambda: ready(worker))
                vcenter.control.reset_calls()
                await one.publish(event)
                await one.settled()
                worker.end()
                assert await work == 0
                assert (await one.js.stream_info(RESULTS)).state.messages == 1
                assert not vcenter.control.calls()["CloneVM_Task"]

    asyncio.run(run())


def test_what_a_worker_has_finished_is_answered_over_http_from_its_record(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    async def run() -> None:
        event = request("create_machine")
        with linked(tmp_path, nats_server, vcenter) as (host, configured):
            async with producer(nats_server, configured) as one:
                worker = Worker(configured)
                work = asyncio.create_task(worker.run())
                await come_about(lambda: ready(worker))
                made = await one.ask(event)
                worker.end()
                assert await work == 0
                assert await asyncio.to_thread(host.call, event, Mode.STRUCTURED) == made
                assert vcenter.control.calls()["CloneVM_Task"] == 1

    asyncio.run(run())


def test_two_processes_that_get_one_event_make_one_machine(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    vcenter.control.delay(CloneVm=1500)
    event = request("create_machine")
    with (
        linked(tmp_path / "a", nats_server, vcenter, "create_machine") as (one, configured),
        linked(tmp_path / "b", nats_server, vcenter) as (other, _),
        ThreadPoolExecutor(1) as pool,
    ):
        setup(configured)
        first = pool.submit(one.call, event)
        until(lambda: vcenter.control.calls()["CloneVM_Task"])
        assert other.send(event).status_code == 503
        made = first.result()
        assert other.call(event) == made
        assert vcenter.control.calls()["CloneVM_Task"] == 1
        assert sum("worker-1" in path for path in vms(vcenter)) == 1


@pytest.mark.parametrize("target", ["create_machine", None])
def test_probes_name_nats_when_it_is_down_and_changes_wait_for_it(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    """E17 with NATS."""
    with linked(tmp_path, nats_server, vcenter, target) as (host, configured):
        assert problems(host) == {"nats": "a stream or bucket is missing; run setup"}
        setup(configured)
        assert problems(host) == {}
        nats_server.stop()
        until(lambda: problems(host) == {"nats": "not connected"})
        assert host.client.get("/readyz").status_code == 503
        assert host.client.get("/healthz").status_code == 200
        event = request("create_machine")
        refused = host.send(event)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert refused.json()["error"]["code"] == "Unavailable"
        assert not vcenter.control.calls()["CloneVM_Task"]
        nats_server.start()
        until(lambda: problems(host) == {})
        assert host.call(event).data["nodeName"] == "worker-1"


def test_a_host_that_starts_before_nats_answers_what_changes_nothing_and_connects_later(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    nats_server.stop()
    with linked(tmp_path, nats_server, vcenter) as (host, configured):
        assert host.call(request("get_machine_status")).data["error"]["code"] == "NotFound"
        assert host.send(request("delete_machine")).status_code == 503
        nats_server.start()
        setup(configured)
        until(lambda: problems(host) == {})
        assert host.call(request("delete_machine")).type.endswith(".succeeded.v1")


def test_a_result_that_cannot_be_published_is_not_answered_yet_but_a_reading_is(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """E11 over HTTP: the stream is full; the result is retried, not the machine."""

    async def run() -> None:
        event = request("create_machine")
        with linked(tmp_path, nats_server, vcenter) as (host, configured):
            async with producer(nats_server, configured) as one:
                config = (await one.js.stream_info(RESULTS)).config
                await one.js.update_stream(config.evolve(max_msgs=1))
                await asyncio.to_thread(host.call, request("get_volume_ids", data={"pvSpecList": []}))
                assert (await asyncio.to_thread(host.send, event)).status_code == 503
                status = await asyncio.to_thread(host.call, request("get_machine_status"))
                assert status.data["nodeName"] == "worker-1"
                await one.js.update_stream(config.evolve(max_msgs=-1))
                assert vcenter.control.calls()["CloneVM_Task"] == 1
                vcenter.control.reset_calls()
                answered = await asyncio.to_thread(host.call, event)
                assert await one.stored(event) == answered
                assert vcenter.control.calls().total() == 0

    asyncio.run(run())


def test_the_last_try_leaves_a_dead_letter_that_can_be_sent_again(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    async def run() -> None:
        vcenter.control.add_fault("CloneVM_Task", "HostCommunication")
        event = request("create_machine")
        with linked(tmp_path, nats_server, vcenter) as (host, configured):
            async with producer(nats_server, configured) as one:
                assert (await asyncio.to_thread(host.send, event)).status_code == 503
                failed = result_of(await asyncio.to_thread(host.send, event))
                assert failed.data["error"]["code"] == "Unavailable"
                assert await asyncio.to_thread(host.call, event) == failed
                await come_about(lambda: one.on("dead"))
                (letter,) = one.on("dead")
                assert (letter.headers or {})["vsphere-code"] == "Unavailable"
                received = from_nats(letter.headers, letter.data)
                assert getattr(received, "event", None) == event
                vcenter.control.clear_faults()
                calls = Calls(one.client)
                await calls.open()
                letters = DeadLetters(calls)
                assert await redrive(letters, await letters.get(1)) == 1
                await calls.close()
                made = await asyncio.to_thread(host.call, event)
                assert (made.id, made.data["nodeName"]) == (f"{event.id}.result.1", "worker-1")
                assert await one.stored(event) == made
                assert await one.waiting() == 1, "a worker will find it done"

    asyncio.run(run())


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_host_that_is_killed_at_its_dead_letter_leaves_it_to_whoever_is_asked_next(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path, dies: str
) -> None:
    """The record says that the letter is due until it is written; then it is the last one, also when it is purged."""

    async def run() -> None:
        vcenter.control.add_fault("CloneVM_Task", "HostCommunication")
        event = request("create_machine")
        with linked(tmp_path / "a", nats_server, vcenter, dies=dies) as (dying, configured):
            async with producer(nats_server, configured) as one:
                assert (await asyncio.to_thread(dying.send, event)).status_code == 503
                with pytest.raises(httpx.TransportError):
                    await asyncio.to_thread(dying.send, event)
                assert dying.ended() == -9
                records = await one.js.key_value(Bucket.OPERATIONS)
                key = f"default.{request_token(event.id)}"
                assert Record.load((await records.get(key)).value or b"").letter_due
                assert await letters(one) == (dies == "after")
                with linked(tmp_path / "b", nats_server, vcenter) as (next_one, _):
                    failed = await asyncio.to_thread(next_one.call, event)
                    assert failed.data["error"]["code"] == "Unavailable"
                    assert await letters(one) == 1
                    settled = await records.get(key)
                    assert await asyncio.to_thread(next_one.call, event) == failed
                assert not Record.load(settled.value or b"").letter_due
                assert (await records.get(key)).revision == settled.revision
                assert await letters(one) == 1

    asyncio.run(run())


async def letters(one: Producer) -> int:
    return (await one.js.stream_info(DEAD)).state.messages


def test_credentials_that_nats_refuses_are_named(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    with (
        NatsServer(config='authorization { user: "u", password: "p" }\n') as server,
        linked(tmp_path, server, vcenter, user="u", password="wrong") as (host, _),
    ):
        until(lambda: problems(host) == {"nats": "the credentials are refused"})
        assert host.send(request("create_machine")).status_code == 503
        assert "wrong" not in host.log


def test_what_the_host_does_not_expect_is_500_and_stays_in_its_log(
    nats_server: NatsServer, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    async def run() -> None:
        with linked(tmp_path, nats_server, vcenter) as (host, configured):
            async with producer(nats_server, configured) as one:
                await one.raw("$KV.vsphere_operations.default.odd", b"no record")
                response = await asyncio.to_thread(host.send, request("create_machine", id="odd"))
                assert response.status_code == 500
                assert response.json()["error"]["code"] == "Internal"
                assert "no record" not in response.text
                assert "ValidationError" in host.log

    asyncio.run(run())


def progress(messages: list[Any]) -> list[CloudEvent]:
    return [event for one in messages if (event := getattr(from_nats(one.headers, one.data), "event", None))]
