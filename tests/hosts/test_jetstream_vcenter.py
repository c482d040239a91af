"""What the worker's readiness says of a vCenter that comes and goes."""

import asyncio

import httpx
import pytest

from support.functions import World
from support.jetstream import on, producer, starting, until
from support.proxy import Proxy
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.settings import VCenter


def test_a_worker_is_ready_while_its_vcenter_answers(
    nats_server: NatsServer, shared_vcenter: SimulatedVCenter, capfd: pytest.CaptureFixture[str]
) -> None:
    """E17: 200, and 503 with the part named; alive all the time. The log tells of each change once."""
    telemetry.configure()
    vcenter = shared_vcenter
    way = Proxy(vcenter.host, vcenter.port)
    section = VCenter(
        url=f"https://127.0.0.1:{way.port}/sdk",
        user=vcenter.username,
        password=vcenter.password,
        ca_file=vcenter.ca_file,
    )

    async def run() -> None:
        configured = on(nats_server).model_copy(update={"vcenters": {"default": section}})
        async with (
            producer(nats_server, configured),
            starting(configured, World()) as worker,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{worker.port}") as probe,
        ):

            async def status(path: str) -> int:
                return (await probe.get(path)).status_code

            async def ready() -> bool:
                return await status("/readyz") == 200

            async def away() -> bool:
                return await status("/readyz") == 503

            await until(ready)
            way.refuse()
            await until(away)
            problems = (await probe.get("/readyz")).json()["problems"]
            assert list(problems) == ["vcenter default"]
            assert problems["vcenter default"].startswith("Unavailable")
            assert await status("/healthz") == 200
            way.resume()
            await until(ready)

    with way:
        asyncio.run(run())
    log = capfd.readouterr().err
    assert (log.count("a vCenter cannot be used"), log.count("a vCenter answers again")) == (1, 1)
