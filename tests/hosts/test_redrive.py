"""Dead letters on a real server, sent again to real workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.functions import World, request
from support.jetstream import Producer, on, producer, until, working
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode
from vsphere_events.error import CallError
from vsphere_events.subjects import request_token
from vsphere_functions.hosts.dead_letters import Choice, DeadLetters, Letter
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_names import DEAD, RESULTS
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.hosts.redrive import redrive
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import Bucket, StoreError

CREATE = "vsphere.request.default.create_machine"
SECONDS = 60


def away(times: int = 1) -> list[Exception]:
    return [CallError(Code.UNAVAILABLE, "away", last_known_state="half")] * times


@asynccontextmanager
async def letters_of(one: Producer) -> AsyncIterator[DeadLetters]:
    calls = Calls(one.client)
    await calls.open()
    try:
        yield DeadLetters(calls)
    finally:
        await calls.close()


@asynccontextmanager
async def worked(
    server: NatsServer, configured: Settings, world: World
) -> AsyncIterator[tuple[Producer, DeadLetters]]:
    """A producer and the dead letters, while a worker works."""
    async with (
        producer(server, configured) as one,
        working(configured, world),
        letters_of(one) as letters,
    ):
        yield one, letters


async def letter_of(letters: DeadLetters, number: int = 1) -> Letter:
    """The letter of this number, once it is there and all is acknowledged."""

    async def there() -> bool:
        return any(row["letter"] == number for row in await letters.rows(Choice()))

    await until(there, SECONDS)
    return await letters.get(number)


async def refusal(letters: DeadLetters, letter: Letter) -> str:
    with pytest.raises(CallError) as raised:
        await redrive(letters, letter)
    assert raised.value.code is Code.FAILED_PRECONDITION
    return raised.value.message


async def results(one: Producer) -> int:
    return (await one.js.stream_info(RESULTS)).state.messages


async def result_with(one: Producer, event: CloudEvent, event_id: str) -> dict[str, Any]:
    """The data of the last result, once it is the one of this id."""

    async def last() -> dict[str, Any] | None:
        found = await one.stored(event)
        return found.data if found and found.id == event_id else None

    data = await until(last, SECONDS)
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("mode", Mode)
def test_a_dead_request_is_sent_again_at_once_as_often_as_it_dies(
    nats_server: NatsServer, mode: Mode
) -> None:
    """E15: the window for equal message ids swallows neither the request nor its next dead letter."""

    async def run() -> None:
        world, configured, event = World(failures=away(2)), on(nats_server, attempts=1), request()
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event, mode)
            for generation in (0, 1):
                letter = await letter_of(letters, generation + 1)
                assert letter.message_id == f"default.{request_token(event.id)}.{generation}"
                assert letter.row() == {
                    "letter": generation + 1,
                    "function": "create_machine",
                    "vcenter": "default",
                    "id": event.id,
                    "source": event.source,
                    "code": "Unavailable",
                    "reason": "away",
                    "attempts": 1,
                    "worker": letter.said["worker"],
                    "time": letter.said["time"],
                }
                assert await redrive(letters, letter) == generation + 1
            data = await result_with(one, event, f"{event.id}.result.2")
            await one.settled(SECONDS)
            assert data["nodeName"] == "m-1"
            assert await letters.rows(Choice()) == []
            assert await results(one) == 3
        assert world.effects == ["create m-1"]
        assert world.seen_states == [None, "half", "half"], "it goes on from where it was given up"

    asyncio.run(run())


def test_a_redriven_request_keeps_its_place_in_the_order(nats_server: NatsServer) -> None:
    """A create that died before a delete came: sent again, it makes nothing."""

    async def run() -> None:
        world, configured, event = World(failures=away()), on(nats_server, attempts=1), request()
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event)
            letter = await letter_of(letters)
            await one.ask(request("delete_machine"))
            await redrive(letters, letter)
            data = await result_with(one, event, f"{event.id}.result.1")
            assert data["error"]["code"] == "Canceled"
        assert world.effects == []

    asyncio.run(run())


def test_a_letter_that_outlives_its_record_still_knows_its_place(nats_server: NatsServer) -> None:
    """Records are kept for seven days, dead letters for thirty."""

    async def run() -> None:
        world, configured, event = World(failures=away()), on(nats_server, attempts=1), request()
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event)
            letter = await letter_of(letters)
            await one.ask(request("delete_machine"))
            await one.js.purge_stream(f"KV_{Bucket.OPERATIONS}")
            assert await redrive(letters, letter) == 1
            data = await result_with(one, event, f"{event.id}.result.1")
            assert data["error"]["code"] == "Canceled"

    asyncio.run(run())


def test_sending_again_twice_is_sending_again_once(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured, event = World(failures=away()), on(nats_server, attempts=1), request()
        async with producer(nats_server, configured) as one, letters_of(one) as letters:
            async with working(configured, world):
                await one.publish(event)
                letter = await letter_of(letters)
                await one.settled(SECONDS)
            assert await redrive(letters, letter) == 1
            assert await redrive(letters, letter) == 1
            assert await one.waiting() == 1
            async with working(configured, world):
                await result_with(one, event, f"{event.id}.result.1")
                await one.settled(SECONDS)
            assert await refusal(letters, letter) == "only a dead request is sent again; this one is done"
            with pytest.raises(CallError, match="no dead letter 1"):
                await letters.get(1)
            assert await results(one) == 2
        assert world.effects == ["create m-1"]

    asyncio.run(run())


def test_what_was_cut_short_between_record_and_message_is_taken_up_again(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        world, configured, event = World(failures=away()), on(nats_server, attempts=1), request()
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event)
            letter = await letter_of(letters)
            publish = letters.calls.publish

            async def cut(subject: str, *rest: Any) -> int:
                if subject == CREATE:
                    raise StoreError("cut")
                return await publish(subject, *rest)

            monkeypatch.setattr(letters.calls, "publish", cut)
            with pytest.raises(StoreError):
                await redrive(letters, letter)
            monkeypatch.undo()
            assert await redrive(letters, await letter_of(letters)) == 1
            await result_with(one, event, f"{event.id}.result.1")

    asyncio.run(run())


def test_a_failure_that_is_published_late_does_not_take_the_next_results_place(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker has recorded the failure and sent the letter, and is held up before the result."""

    async def run() -> None:
        world, configured, event = World(failures=away()), on(nats_server, attempts=1), request()
        held, go, publish = asyncio.Event(), asyncio.Event(), Outbox.result

        async def result(self: Outbox, *rest: Any) -> None:
            if not go.is_set():
                held.set()
                await go.wait()
            await publish(self, *rest)

        monkeypatch.setattr(Outbox, "result", result)
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event)
            await held.wait()
            await redrive(letters, await letter_of(letters))
            go.set()
            data = await result_with(one, event, f"{event.id}.result.1")
            await one.settled(SECONDS)
            assert data["nodeName"] == "m-1"
            assert await results(one) == 2

    asyncio.run(run())


def test_what_would_only_come_back_is_refused_with_the_reason(nats_server: NatsServer) -> None:
    async def run() -> None:
        world, configured, event = World(), on(nats_server, attempts=1), request(id="same")
        async with worked(nats_server, configured, world) as (one, letters):
            await one.raw(CREATE, b"{not json", {"Content-Type": "application/cloudevents+json"})
            unreadable = await letter_of(letters)
            assert "nobody can read it: not a CloudEvent" in await refusal(letters, unreadable)
            await one.ask(event)
            await one.publish(request(id="same", source="/producers/other"))
            foreign = await letter_of(letters, 2)
            assert "another source has used this request token" in await refusal(letters, foreign)
            assert len(await letters.rows(Choice())) == 2

    asyncio.run(run())


def test_an_expired_request_is_not_sent_again_unless_to_be_undone(nats_server: NatsServer) -> None:
    async def run() -> None:
        soon = datetime.now(UTC) + timedelta(seconds=2)
        event = request(extensions={"expirytime": soon.isoformat()})
        world, configured = World(failures=away()), on(nats_server, attempts=1)
        async with worked(nats_server, configured, world) as (one, letters):
            await one.publish(event)
            letter = await letter_of(letters)
            await until(lambda: datetime.now(UTC) > soon)
            assert "expirytime has passed" in await refusal(letters, letter)
            records = await one.js.key_value(Bucket.OPERATIONS)
            entry = await records.get(f"default.{event.id}")
            assert entry.value
            canceled = Record.load(entry.value).changed(canceled=True)
            await records.update(f"default.{event.id}", canceled.dump(), last=entry.revision)
            assert await redrive(letters, letter) == 1

    asyncio.run(run())


def test_a_request_that_met_unexpected_errors_is_sent_again_as_it_is(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no record yet, and gets one with its place in the order; once done, it is not sent again."""

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    async def run() -> None:
        world, configured, event = World(), on(nats_server, ack_wait=1, attempts=1), request()
        async with worked(nats_server, configured, world) as (one, letters):
            monkeypatch.setattr("vsphere_functions.hosts.nats_inbox.perform", break_down)
            sequence = await one.publish(event)
            letter = await letter_of(letters)
            monkeypatch.undo()
            assert (letter.message_id, letter.code) == (f"seq.{sequence}", "Internal")
            assert await redrive(letters, letter) == 0
            await result_with(one, event, f"{event.id}.result")
            records = await one.js.key_value(Bucket.OPERATIONS)
            entry = await records.get(f"default.{event.id}")
            assert entry.value
            assert Record.load(entry.value).sequence == sequence
            assert await refusal(letters, letter) == "it has ended since: done"

    asyncio.run(run())


def test_all_letters_are_listed_and_removed_however_many_and_big(nats_server: NatsServer) -> None:
    """Those with a header `Status` too, which a reply without a message has."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server)) as one, letters_of(one) as letters:
            old = {"vsphere-time": "2026-01-01T00:00:00Z", "vsphere-attempts": "five"}
            for n in range(120):
                await one.raw("vsphere.dead.default.create_machine", b"x", {"Status": "503"} | old)
                if n < 5:
                    odd = {"vsphere-time": "yesterday"}
                    await one.raw("vsphere.dead.other.delete_machine", b"x" * 1_000_000, odd)
            rows = await letters.rows(Choice())
            assert [row["letter"] for row in rows] == list(range(1, 126))
            assert len(await letters.rows(Choice(function="delete_machine"))) == 5
            assert len(await letters.rows(Choice(vcenter="other"))) == 5
            assert len(await letters.rows(Choice(older_than=timedelta(days=1)))) == 120
            assert (await letters.get(1)).headers == {"Status": "503"}
            numbers = [row["letter"] for row in rows]
            assert await letters.remove(numbers) == set(numbers)
            assert await letters.remove(numbers) == set()
            assert (await one.js.stream_info(DEAD)).state.messages == 0

    asyncio.run(run())
