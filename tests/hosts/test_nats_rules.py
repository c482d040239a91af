"""What streams and buckets keep, for how long, and how big it may be."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.errors import MaxPayloadError
from nats.js.api import AckPolicy, DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import APIError

from support.functions import World
from support.jetstream import Producer, on, producer, until, working
from vsphere_events.code import Code
from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts import kv
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_names import DAY, DEAD, REQUESTS, RESULTS
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.perform import DeadLetter
from vsphere_functions.runtime.store import Bucket

CREATE = "vsphere.request.default.create_machine"


async def config(one: Producer, stream: str) -> StreamConfig:
    return (await one.js.stream_info(stream)).config


@asynccontextmanager
async def calling(one: Producer) -> AsyncIterator[Calls]:
    calls = Calls(one.client)
    await calls.open()
    try:
        yield calls
    finally:
        await calls.close()


def test_what_setup_makes_keeps_each_thing_as_long_as_it_is_needed(nats_server: NatsServer) -> None:
    """An identity outlives a dead letter that can be sent again, and that outlives its request's record."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server, ack_wait=2)) as one:
            requests = await config(one, REQUESTS)
            assert requests.retention == RetentionPolicy.WORK_QUEUE
            assert requests.discard == DiscardPolicy.NEW, "a full stream refuses, and forgets nothing"
            assert requests.max_age == 30 * DAY
            assert sorted(requests.subjects or ()) == sorted(
                f"vsphere.request.default.{f}" for f in FUNCTIONS
            )
            assert requests.max_msg_size == one.client.max_payload - 64 * 1024
            ages = {stream: (await config(one, stream)).max_age for stream in (RESULTS, DEAD)}
            ages |= {bucket: (await config(one, f"KV_{bucket}")).max_age for bucket in Bucket}
            assert ages == {
                RESULTS: 7 * DAY,
                DEAD: 30 * DAY,
                Bucket.OPERATIONS: 7 * DAY,
                Bucket.IDENTITIES: 31 * DAY,
                Bucket.LEASES: 2,
            }
            for stream in (RESULTS, DEAD):
                kept = await config(one, stream)
                assert kept.retention == RetentionPolicy.LIMITS
                assert kept.allow_direct, "a producer reads its own results, and no more, by direct gets"
            (first, *rest) = await one.js.consumers_info(REQUESTS)
            assert len(rest) == len(FUNCTIONS) - 1
            assert (first.config.max_deliver, first.config.max_ack_pending) == (-1, 10_000)
            assert (first.config.ack_wait, first.config.ack_policy) == (2, AckPolicy.EXPLICIT)

    asyncio.run(run())


def test_a_key_that_stays_deleted_leaves_nothing_behind(
    nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its marker goes by itself; and while it lasts, the key can be made anew."""
    monkeypatch.setattr(kv, "_MARKER_LASTS", "1s")

    async def run() -> None:
        async with producer(nats_server, on(nats_server)) as one, calling(one) as calls:
            store = KvStore(calls)
            for n in range(20):
                revision = await store.create(Bucket.IDENTITIES, f"making.owner.{n}", b"note")
                assert revision
                assert await store.delete(Bucket.IDENTITIES, f"making.owner.{n}", revision)
            assert await store.get(Bucket.IDENTITIES, "making.owner.0") is None
            assert await store.create(Bucket.IDENTITIES, "making.owner.0", b"again")

            async def only_one_left() -> bool:
                return (await one.js.stream_info(f"KV_{Bucket.IDENTITIES}")).state.messages == 1

            await until(only_one_left, 60)
            entry = await store.get(Bucket.IDENTITIES, "making.owner.0")
            assert entry
            assert entry.value == b"again"

    asyncio.run(run())


def test_the_largest_request_can_be_dead_lettered_whole(nats_server: NatsServer) -> None:
    """The stream takes no bigger one, headers included; so there is room for what the worker says."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server)) as one, working(on(nats_server), World()):
            largest = one.client.max_payload - 64 * 1024
            headers = {"X-Big": "x" * 30_000, "Content-Type": "application/cloudevents+json"}
            block = sum(len(name) + len(value) + 4 for name, value in headers.items()) + 12
            body = b"x" * (largest - block)
            with pytest.raises(APIError, match="maximum"):
                await one.raw(CREATE, body + b"x", headers)
            await one.raw(CREATE, body, headers)
            await one.settled(60)
            await until(lambda: one.on("dead"), 60)
            (letter,) = one.on("dead")
            assert letter.data == body
            assert headers.items() <= (letter.headers or {}).items()

    asyncio.run(run())


def test_a_letter_that_is_too_big_says_so_in_place_of_the_request(nats_server: NatsServer) -> None:
    """Over HTTP, where no stream has refused it."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server)) as one, calling(one) as calls:
            body, where = b"x" * one.client.max_payload, ("default", "create_machine")
            with pytest.raises(MaxPayloadError):
                await one.client.publish("anywhere", body + b"x")
            letter = DeadLetter(Code.UNAVAILABLE, "away", 5)
            await Outbox(one.client, calls, "w").dead(
                where, ({"A": "b"}, body), letter, sequence=0, message_id="i"
            )
            await until(lambda: one.on("dead") or [m for m in one.heard if "dead" in m.subject], 60)
            (message,) = [m for m in one.heard if "dead" in m.subject]
            assert message.data == b""
            assert (message.headers or {})[
                "vsphere-reason"
            ] == "away (the request, 1048576 bytes, is too big to be kept)"

    asyncio.run(run())


def test_a_lease_that_nobody_renews_is_free_again(nats_server: NatsServer) -> None:
    """By the age of its bucket: an update of a key knows no time of its own."""

    async def run() -> None:
        async with producer(nats_server, on(nats_server, ack_wait=1)) as one, calling(one) as calls:
            store = KvStore(calls)
            assert await store.create(Bucket.LEASES, "key", b"one")
            assert await store.create(Bucket.LEASES, "key", b"two") is None

            async def free() -> bool:
                return await store.create(Bucket.LEASES, "key", b"two") is not None

            await until(free, 60)

    asyncio.run(run())
