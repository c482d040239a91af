"""A NATS server that is not trusted: told, and asked again for as long as the caller is patient."""

import asyncio
import gc

import pytest

from support.jetstream import LEFT, until
from vsphere_functions.hosts.nats_connection import connect
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import Settings, SettingsError


@pytest.mark.filterwarnings(LEFT)
def test_a_server_that_is_not_trusted_ends_who_is_not_patient_and_no_one_else(
    shared_vcenter: SimulatedVCenter,
) -> None:
    """The library waits for ever for the end of a connection whose handshake has failed."""
    files = f"cert_file: {shared_vcenter.ca_file}, key_file: {shared_vcenter.key_file}"
    heard: list[Exception] = []

    async def noticed(error: Exception) -> None:
        heard.append(error)

    async def run(configured: Settings) -> None:
        async with asyncio.timeout(60):
            with pytest.raises(SettingsError, match="CERTIFICATE_VERIFY_FAILED"):
                await connect(configured, patient=False)
        waiting = asyncio.create_task(connect(configured, on_error=noticed))
        await until(lambda: len(heard) > 1, 60)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait({waiting})

    with NatsServer(config=f"tls {{ {files} }}") as server:
        asyncio.run(run(Settings.model_validate({"nats": {"url": server.url}})))
    gc.collect()
