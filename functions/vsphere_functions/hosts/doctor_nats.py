"""What `doctor` asks NATS, as the user that a worker is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime

from nats.aio.client import Client

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts.findings import Finding, clock, fault, fine, now, warning
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls, answer_of
from vsphere_functions.hosts.nats_check import check
from vsphere_functions.hosts.nats_connection import addresses, connect, nats_of
from vsphere_functions.hosts.nats_names import REQUESTS, ROOM_FOR_DEAD_LETTER_HEADERS, consumer_name
from vsphere_functions.runtime.settings import Settings, SettingsError
from vsphere_functions.runtime.store import Bucket, StoreError

OLDEST = (2, 11)
"""The server from which on many keys can be read at once."""
COMFORTABLE = 1024 * 1024
"""Bytes of payload that user data and long lists fit into."""
_PART = "nats"
_PATIENCE = 2.0  # seconds; what is forbidden is never answered


async def examine_nats(settings: Settings) -> list[Finding]:
    """Look at the server, its streams, consumers and buckets, and at what this user may do; nothing is stored."""
    if settings.nats is None:
        return [warning(_PART, "there is no section [nats]", "without it requests come over HTTP only")]
    forbidden: list[str] = []

    async def noticed(error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            forbidden.append(str(error).removeprefix("nats: "))

    try:
        client = await connect(settings, patient=False, on_error=noticed)
    except SettingsError as error:
        return [fault(_PART, str(error), _way_in(str(error)))]
    calls = Calls(client, _PATIENCE)
    await calls.open()
    try:
        found = [one async for one in _look(client, calls, settings)]
    finally:
        await calls.close()
        await client.close()
    return [*found, *_permissions(forbidden)]


async def _look(client: Client, calls: Calls, settings: Settings) -> AsyncIterator[Finding]:
    nats = nats_of(settings)
    version = client.connected_server_version
    told = f"nats-server {version.major}.{version.minor}.{version.patch} at {addresses(nats)}"
    if (version.major, version.minor) < OLDEST:
        yield fault(_PART, f"{told} is too old", f"{OLDEST[0]}.{OLDEST[1]} or newer is needed")
    else:
        yield fine(_PART, told)
    yield _payload(client.max_payload)
    missing = await check(client, calls, settings, nats) + await _names_of_new_machines(calls)
    for problem in missing:
        part, _, says = problem.partition(": ")
        yield fault(f"{_PART} {part}", says, "run `vsphere-functions setup`, or grant what is forbidden")
    if not missing:
        yield fine(f"{_PART} streams", f"all are there for {', '.join(settings.own_vcenters)}")
    with suppress(StoreError, IndexError):  # then it is among what is missing
        yield await _clock(calls, settings.own_vcenters[0])


async def _names_of_new_machines(calls: Calls) -> list[str]:
    """Read many identities at once, as lists and statuses do; a worker starts without, and they are Unavailable."""
    try:
        await KvStore(calls).under(Bucket.IDENTITIES, "self-check")
    except StoreError as error:
        return [f"bucket {Bucket.IDENTITIES}: many keys at once: {error}"]
    return []


def _payload(most: int) -> Finding:
    part, says = f"{_PART} payload", f"messages may have {most // 1024} KiB"
    do = "raise max_payload to 1MB, restart, and run `vsphere-functions setup`"
    if most < 2 * ROOM_FOR_DEAD_LETTER_HEADERS:
        return fault(part, f"{says}: no room for a request and the headers of its dead letter", do)
    if most < COMFORTABLE:
        return warning(part, f"{says}: long lists and user data may not fit", do)
    return fine(part, says)


async def _clock(calls: Calls, label: str) -> Finding:
    """Ask a consumer about itself: its answer has the server's time."""
    before = now()
    durable = consumer_name(label, next(iter(FUNCTIONS)))
    answer = answer_of(await calls.ask(f"$JS.API.CONSUMER.INFO.{REQUESTS}.{durable}"))
    text = str(answer.get("ts", ""))
    if not text:
        raise StoreError("the server does not tell its time")
    return clock(f"{_PART} clock", datetime.fromisoformat(text), before, now())


def _permissions(forbidden: list[str]) -> list[Finding]:
    part = f"{_PART} permissions"
    if not forbidden:
        return [fine(part, "this user may do all that a worker does")]
    do = "grant it to this user, as infra/nats/accounts.conf does"
    return [fault(part, one, do) for one in dict.fromkeys(forbidden)]


def _way_in(says: str) -> str:
    """Say what helps against a connection that does not come about."""
    if "credentials" in says:
        return "look at nats.user and nats.password, nats.creds or nats.nkey_seed_file"
    if "certificate" in says.lower() or "ssl" in says.lower():
        return "name the authority of the server's certificate in nats.ca_file"
    return "look whether the server runs at nats.url and can be reached from here"


def run_nats(settings: Settings) -> list[Finding]:
    """Examine NATS from a thread that has no event loop."""
    return asyncio.run(examine_nats(settings))
