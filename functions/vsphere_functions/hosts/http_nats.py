"""The HTTP host's share of NATS: the records and leases of the workers, and the results stream."""

import asyncio
import time

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_events.envelope import Mode, to_nats
from vsphere_events.subjects import result_subject
from vsphere_functions.hosts.http_loop import LoopThread
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import WRONG_STREAM, Calls, NoStreamError, RefusedError
from vsphere_functions.hosts.nats_connection import addresses, connect, nats_of
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.hosts.seldom import Seldom
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.claims import letter_written
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.perform import Finished
from vsphere_functions.runtime.settings import Settings, SettingsError
from vsphere_functions.runtime.store import Bucket, StoreError

_PATIENCE = 2.0  # seconds for a probe, and for the first connection
_NOBODY = "self-check"


class Link:
    """A connection that is made once and kept for ever; all of it lives on one event loop."""

    def __init__(self, client: Client, calls: Calls, name: str) -> None:
        self._client = client
        self._calls = calls
        self.outbox = Outbox(client, calls, name)
        self.store = KvStore(calls)

    async def finish(self, address: Address, finished: Finished, mode: Mode) -> None:
        """Publish what is recorded as finished, as a worker would; StoreError when it may not be stored.

        The record is written before and the caller answered after. A dead letter is the event as a message: one that
        is sent again goes to the workers.
        """
        if letter := finished.dead:
            where = (address.label, address.function.name)
            message_id = f"{address.key}.{letter.generation}"
            original = to_nats(address.event, mode)
            await self.outbox.dead(where, original, letter, sequence=0, message_id=message_id)
            await letter_written(self.store, address.key, letter.generation)
        await self.outbox.result(address, finished, mode)

    async def problem(self, label: str) -> str | None:
        """Say why requests that change something cannot be served, or None."""
        if not self._client.is_connected:
            return "not connected"
        try:
            await asyncio.wait_for(self._ask(label), _PATIENCE)
        except NoStreamError:
            return "a stream or bucket is missing; run setup"
        except (StoreError, TimeoutError) as error:
            return str(error) or "no answer in time"
        return None

    async def close(self) -> None:
        """Send what is still to be sent, then leave."""
        try:
            await self._client.drain()
        except NatsError:
            await self._client.close()
        await self._calls.close()

    async def _ask(self, label: str) -> None:
        """Read from each bucket, and have the results' stream refuse a message meant for another."""
        await asyncio.gather(*(self.store.get(bucket, _NOBODY) for bucket in Bucket))
        subject = result_subject(label, "get_machine_status", _NOBODY)
        try:
            await self._calls.publish(subject, b"", {"Nats-Expected-Stream": _NOBODY})
        except RefusedError as error:
            if error.code != WRONG_STREAM:
                raise


class Linking:
    """A link that is being made, for as long as that takes."""

    def __init__(self, loop: LoopThread, settings: Settings, name: str) -> None:
        self._settings = settings
        self._making = loop.submit(_make(settings, name))
        self._patient_until = time.monotonic() + _PATIENCE

    async def link(self) -> Link | None:
        """Give the link, or None when there is none; the first requests wait for it a little."""
        patience = max(0.0, self._patient_until - time.monotonic())
        await asyncio.wait({asyncio.wrap_future(self._making)}, timeout=patience)
        return self._making.result() if self._making.done() else None

    async def problem(self) -> str | None:
        """Say why requests that change something cannot be served, or None."""
        link = await self.link()
        if link is None:
            return "the credentials are refused" if self._making.done() else "not connected"
        return await link.problem(next(iter(self._settings.vcenters), "default"))

    async def close(self) -> None:
        """Leave, or give up to get there."""
        link = await self.link()
        if link:
            await link.close()
        self._making.cancel()


async def _make(settings: Settings, name: str) -> Link | None:
    seldom = Seldom()

    async def noticed(error: Exception) -> None:
        if seldom.due(str(error)):
            telemetry.log().warning("NATS reports an error", error=str(error), servers=servers)

    async def reconnected() -> None:
        seldom.anew()
        telemetry.log().info("NATS answers again", servers=servers)

    servers = addresses(nats_of(settings))
    try:
        client = await connect(settings, on_error=noticed, on_reconnected=reconnected)
    except SettingsError as error:
        telemetry.log().error("no connection to NATS", reason=str(error))
        return None
    calls = Calls(client)
    await calls.open()
    return Link(client, calls, name)
