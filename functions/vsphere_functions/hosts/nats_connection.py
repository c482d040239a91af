"""A connection to NATS as the settings describe it, kept for ever."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_functions.runtime.settings import PREFIX, Nats, Settings, SettingsError

OnError = Callable[[Exception], Awaitable[None]]
Notice = Callable[[], Awaitable[None]]
_FAREWELL = 5.0
"""Seconds for a connection to end."""


class _Sturdy(Client):
    """A client that survives a header block it cannot read, and a failed handshake.

    nats-py's own stops reading at the one and is deaf for good; after the other it waits for ever for the end of a
    stream that nobody tells of it.
    """

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002 - as nats-py calls it
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await super()._close(status, do_cbs)

    async def _process_headers(self, headers: Any) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except Exception as unreadable:  # noqa: BLE001 - anybody can publish any bytes
            await self._error_cb(unreadable)
            return None


async def _quiet(_error: Exception) -> None:
    """Say nothing: what matters shows where it is needed."""


async def _nothing() -> None:
    """Do nothing."""


def nats_of(settings: Settings) -> Nats:
    """Return the section [nats]; SettingsError when there is none."""
    if settings.nats is None:
        raise SettingsError(f"nats: is required here: a section [nats], or {PREFIX}NATS__URL")
    return settings.nats


def addresses(section: Nats) -> str:
    """Name the servers, without what their addresses may tell of a user."""
    return ", ".join(url.rpartition("@")[2] for url in section.url)


async def connect(
    settings: Settings,
    *,
    patient: bool = True,
    on_error: OnError = _quiet,
    on_closed: Notice = _nothing,
    on_reconnected: Notice = _nothing,
) -> Client:
    """Connect; a patient connection waits for the server and comes back after each outage.

    SettingsError when the server refuses the credentials, or is not there and the caller is not patient.
    """
    logging.getLogger("asyncio").addFilter(_means_something)
    section, client, connecting = nats_of(settings), _Sturdy(), True

    async def noticed(error: Exception) -> None:
        if connecting and "authorization violation" in str(error).lower():
            raise SettingsError("NATS refuses the user or its credentials")
        await on_error(error)

    try:
        await client.connect(
            list(section.url),
            name="vsphere-functions",
            allow_reconnect=patient,
            max_reconnect_attempts=-1 if patient else 1,
            reconnect_time_wait=1 if patient else 0,
            connect_timeout=5,
            inbox_prefix=section.inbox_prefix,
            error_cb=noticed,
            closed_cb=on_closed,
            reconnected_cb=on_reconnected,
            **_login(section),
        )
    except BaseException as error:
        await client.close()  # or what it has opened so far stays open
        if not isinstance(error, NatsError | OSError):
            raise
        raise SettingsError(f"NATS at {addresses(section)}: {str(error) or type(error).__name__}") from error
    connecting = False
    return client


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Client]:
    """Connect for a short piece of work; SettingsError when that fails."""
    client = await connect(settings, patient=False)
    try:
        yield client
    finally:
        await client.close()


def _means_something(record: logging.LogRecord) -> bool:
    """Leave out what asyncio says at each end of a TLS connection that nats-py reads; nothing is wrong then."""
    return "returning true from eof_received()" not in record.getMessage()


def _login(section: Nats) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if section.creds:
        options["user_credentials"] = str(section.creds)
    if section.nkey_seed_file:
        options["nkeys_seed"] = str(section.nkey_seed_file)
    if section.user:
        options["user"] = section.user
    if section.password:
        options["password"] = section.password.get_secret_value()
    if section.ca_file:
        options["tls"] = ssl.create_default_context(cafile=str(section.ca_file))
    return options
