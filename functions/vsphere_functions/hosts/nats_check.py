"""Whether a worker may do all that it will have to, and whether all is there: asked before the first request."""

import asyncio
from collections.abc import Iterator

from nats.aio.client import Client

from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import dead_subject, progress_subject, request_subject, result_subject
from vsphere_functions.hosts.nats_calls import WRONG_STREAM, Calls, NoStreamError, RefusedError, answer_of
from vsphere_functions.hosts.nats_names import REQUESTS, consumer_name
from vsphere_functions.runtime.settings import Nats, Settings
from vsphere_functions.runtime.store import Bucket, StoreError

_TOKEN = "self-check"  # noqa: S105 - a request token, in place of one
_PROBE = {"Nats-Expected-Stream": "none-of-this-name"}


async def check(client: Client, calls: Calls, settings: Settings, nats: Nats) -> list[str]:
    """Say what is missing; a message with a wrong expected stream is stored nowhere, and its refusal says enough.

    What is forbidden raises nothing here: the server reports it to the connection's error callback.
    """
    subjects = list(_subjects(settings.own_vcenters))
    durables = [(label, function) for label in settings.own_vcenters for function in FUNCTIONS]
    for label in settings.own_vcenters:
        for function in FUNCTIONS:
            await client.publish(progress_subject(label, function, _TOKEN), b"")
    found = await asyncio.gather(
        *(_stream(calls, subject) for subject in subjects),
        *(_consumer(calls, consumer_name(*durable), nats.ack_wait_seconds) for durable in durables),
        *(_bucket(calls, bucket) for bucket in Bucket),
    )
    return sorted({problem for problem in found if problem})


def _subjects(labels: tuple[str, ...]) -> Iterator[str]:
    for label in labels:
        for function in FUNCTIONS:
            yield request_subject(label, function)
            yield result_subject(label, function, _TOKEN)
            yield dead_subject(label, function)
    for bucket in Bucket:
        yield f"$KV.{bucket}.{_TOKEN}"


async def _stream(calls: Calls, subject: str) -> str | None:
    try:
        await calls.publish(subject, b"", _PROBE)
    except RefusedError as error:
        return None if error.code == WRONG_STREAM else f"{subject}: {error}"
    except NoStreamError:
        return f"no stream takes {subject}; run setup"
    except StoreError as error:
        return f"{subject}: {error}"
    return f"{subject}: the server does not heed expected streams"


async def _consumer(calls: Calls, durable: str, ack_wait: float) -> str | None:
    try:
        found = answer_of(await calls.ask(f"$JS.API.CONSUMER.INFO.{REQUESTS}.{durable}"))
    except StoreError as error:
        return f"consumer {durable}: {error}; run setup"
    seconds = found.get("config", {}).get("ack_wait", 0) / 1e9
    if seconds != ack_wait:
        return f"consumer {durable} waits {seconds:g} s where the settings say {ack_wait:g}; run setup"
    return None


async def _bucket(calls: Calls, bucket: Bucket) -> str | None:
    """Read a key that is not there: reading has a permission of its own."""
    try:
        message = await calls.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{_TOKEN}")
        answer_of(message)
    except NoStreamError:
        return f"no bucket {bucket}; run setup"
    except StoreError as error:
        return f"bucket {bucket}: {error}"
    return None
