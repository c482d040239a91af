"""Create or correct everything in NATS that workers and producers need."""

import asyncio
from dataclasses import fields

from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from nats.js.errors import APIError, NotFoundError

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts.nats_connection import connected, nats_of
from vsphere_functions.hosts.nats_names import REQUESTS, consumer, streams
from vsphere_functions.runtime.settings import Settings, SettingsError


def setup(settings: Settings) -> list[str]:
    """Create what is missing and correct what has drifted; the names of all of it. SettingsError when refused."""
    return asyncio.run(_setup(settings))


async def _setup(settings: Settings) -> list[str]:
    if not settings.vcenters:
        raise SettingsError("vcenters: name at least one, its requests need a place")
    async with connected(settings) as client:
        try:
            return await set_up(client, settings)
        except APIError as error:
            raise SettingsError(f"NATS refuses: {error.description}") from error


async def set_up(client: Client, settings: Settings) -> list[str]:
    """Create or correct streams, buckets and consumers over a connection."""
    nats, js, made = nats_of(settings), client.jetstream(), list[str]()
    for config in streams(settings.vcenters, nats, client.max_payload):
        await _ensure(js, config)
        made.append(str(config.name))
    for label in settings.vcenters:
        for function in FUNCTIONS:
            durable = consumer(label, function, nats)
            await js.add_consumer(REQUESTS, durable)
            made.append(str(durable.durable_name))
    return made


async def _ensure(js: JetStreamContext, wanted: StreamConfig) -> None:
    """Create a stream or update it; subjects of other installations stay, and bounds that an operator has set."""
    try:
        known = await js.stream_info(str(wanted.name))
    except NotFoundError:
        await js.add_stream(wanted)
        return
    kept = set(known.config.subjects or ()) | set(wanted.subjects or ())
    own = {
        one.name: getattr(known.config, one.name)
        for one in fields(wanted)
        if getattr(wanted, one.name) is None
    }
    await js.update_stream(wanted.evolve(**own, subjects=sorted(kept)))
