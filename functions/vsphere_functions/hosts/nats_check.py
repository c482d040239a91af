"""Whether a worker may do all that it will have to, and whether all is there: asked before the first request."""

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import product
from typing import Any, TypeAlias

from nats.aio.client import Client

from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import dead_subject, progress_subject, request_subject, result_subject
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import WRONG_STREAM, Calls, NoStreamError, RefusedError, answer_of
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS, consumer_name
from vsphere_functions.runtime.settings import Nats, Settings
from vsphere_functions.runtime.store import Bucket, StoreError

_TOKEN = "self-check"  # noqa: S105 - in place of a request token
_PROBE = {"Nats-Expected-Stream": "none-of-this-name"}

Finding: TypeAlias = Coroutine[Any, Any, str | None]


async def check(client: Client, calls: Calls, settings: Settings, nats: Nats) -> list[str]:
    """Say what is missing, part by part.

    A message with a wrong expected stream is stored nowhere, and its refusal says enough. What is forbidden raises
    nothing here: the server reports it to the connection's error callback.
    """
    for label, function in product(settings.own_vcenters, FUNCTIONS):
        consumer = consumer_name(label, function)
        await client.publish(progress_subject(label, function, _TOKEN), b"")
        # No address to answer to, and a sign of life for no message: the server only looks whether they may be sent.
        await client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.{consumer}", b"")
        await client.publish(f"$JS.ACK.{REQUESTS}.{consumer}.{_TOKEN}", b"+WPI")
    parts, findings = zip(*_questions(calls, settings.own_vcenters, nats), strict=True)
    problems: dict[str, list[str]] = {}
    for part, problem in zip(parts, await asyncio.gather(*findings), strict=True):
        if problem:
            problems.setdefault(part, []).append(problem)
    return [_summary(part, found) for part, found in sorted(problems.items())]


def _questions(calls: Calls, labels: tuple[str, ...], nats: Nats) -> Iterator[tuple[str, Finding]]:
    for label, function in product(labels, FUNCTIONS):
        yield REQUESTS, _stream(calls, request_subject(label, function))
        yield RESULTS, _stream(calls, result_subject(label, function, _TOKEN))
        yield DEAD, _stream(calls, dead_subject(label, function))
        yield "consumers", _consumer(calls, consumer_name(label, function), nats.ack_wait_seconds)
    for bucket in Bucket:
        yield f"bucket {bucket}", _stream(calls, f"$KV.{bucket}.{_TOKEN}")
        yield f"bucket {bucket}", _readable(calls, bucket)
    yield f"bucket {Bucket.LEASES}", _countable(calls)


def _summary(part: str, found: list[str]) -> str:
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{part}: {found[0]}{more}"


async def _stream(calls: Calls, subject: str) -> str | None:
    try:
        await calls.publish(subject, b"", _PROBE)
    except RefusedError as error:
        return None if error.code == WRONG_STREAM else str(error)
    except NoStreamError:
        return f"no stream takes {subject}; run setup"
    except StoreError as error:
        return f"{subject}: {error}"
    return f"{subject}: the server does not heed expected streams"


async def _consumer(calls: Calls, durable: str, ack_wait: float) -> str | None:
    try:
        found = answer_of(await calls.ask(f"$JS.API.CONSUMER.INFO.{REQUESTS}.{durable}"))
    except StoreError as error:
        return f"{durable}: {error}; run setup"
    seconds = found.get("config", {}).get("ack_wait", 0) / 1e9
    if seconds != ack_wait:
        return f"{durable} waits {seconds:g} s where the settings say {ack_wait:g}; run setup"
    return None


async def _readable(calls: Calls, bucket: Bucket) -> str | None:
    """Read a key that is not there: reading has a permission of its own."""
    try:
        answer_of(await calls.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{_TOKEN}"))
    except NoStreamError:
        return "is missing; run setup"
    except StoreError as error:
        return str(error)
    return None


async def _countable(calls: Calls) -> str | None:
    """Read many keys at once, as a look at the slots does; the server has that since 2.11, under another subject."""
    try:
        await KvStore(calls).under(Bucket.LEASES, _TOKEN)
    except StoreError as error:
        return f"{error}; run setup"
    return None
