"""Work that takes longer than a platform lets a call run: 503 at the limit, the result at a later try.

`LONG_CLONE_SECONDS` says how long the clone takes; the limit is a sixth of that, 30 s and 5 s in `make soak`.
"""

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest

from support.http_host import HttpHost, linked, request, result_of, running, settings_of, toml, until
from support.jetstream import producer
from support.machines import vms
from support.proxy import Proxy
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter

CLONE = float(os.environ.get("LONG_CLONE_SECONDS", "3"))
LIMIT = toml("http", {"answer_seconds": CLONE / 6})
PATIENCE = 60 + CLONE
MACHINE = "/DC0/vm/demo/machines/worker-1"


@pytest.fixture
def slow(vcenter: SimulatedVCenter) -> SimulatedVCenter:
    """A vCenter whose clones take long."""
    vcenter.control.delay(CloneVm=int(CLONE * 1000))
    return vcenter


def made_once(vcenter: SimulatedVCenter) -> bool:
    return vcenter.control.calls()["CloneVM_Task"] == 1 and [
        path for path in vms(vcenter) if "worker" in path
    ] == [MACHINE]


def put_off(response: httpx.Response) -> str:
    """See that it asks for the same event again, and give the reason."""
    assert response.status_code == 503, response.text
    assert int(response.headers["retry-after"]) >= 1
    error: dict[str, str] = response.json()["error"]
    assert error["code"] == "Unavailable"
    return error["message"]


def answered(host: HttpHost, event: CloudEvent) -> CloudEvent:
    """Ask until there is a result; everything before is a wish to be asked again."""
    answers: list[httpx.Response] = []

    def finished() -> bool:
        answers.append(host.send(event))
        return answers[-1].status_code != 503 or not put_off(answers[-1])

    until(finished, PATIENCE)
    return result_of(answers[-1])


@pytest.mark.parametrize("target", ["create_machine", None])
def test_a_create_beyond_the_limit_goes_on_and_a_later_try_has_its_result(
    slow: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    event = request("create_machine")
    with running(tmp_path, settings_of(slow) + LIMIT, target) as host:
        assert "goes on" in put_off(host.send(event))
        made = answered(host, event)
        assert made.type == "io.vspherefunctions.create_machine.succeeded.v1"
        assert host.call(event) == made
        assert "goes on beyond its call" in host.log
    assert made_once(slow)


def test_what_goes_on_beyond_its_call_keeps_its_slot(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    """Else a platform that counts open calls would send more and more."""
    with Proxy(vcenter.host, vcenter.port) as proxy:
        settings = settings_of(vcenter, proxy.port) + toml("http", {"answer_seconds": 0.2, "slots": 1})
        with running(tmp_path, settings) as host:
            proxy.black_hole()
            event = request("create_machine")
            assert "goes on" in put_off(host.send(event))
            assert "run already" in put_off(host.send(request("create_machine", "worker-2")))
            proxy.resume()
            answered(host, event)
    assert made_once(vcenter)


def test_another_process_answers_what_the_first_has_finished(
    slow: SimulatedVCenter, nats_server: NatsServer, tmp_path: Path
) -> None:
    event = request("create_machine")
    with (
        linked(tmp_path / "a", nats_server, slow, "create_machine", LIMIT) as (one, configured),
        linked(tmp_path / "b", nats_server, slow, None, LIMIT) as (other, _),
    ):
        setup(configured)
        put_off(one.send(event))
        until(lambda: slow.control.calls()["CloneVM_Task"])
        made = answered(other, event)
        assert one.call(event) == made
    assert made_once(slow)


def test_when_the_first_process_is_ended_meanwhile_another_finishes_the_same_machine(
    slow: SimulatedVCenter, nats_server: NatsServer, tmp_path: Path
) -> None:
    """As when a platform scales down what has no open call: no second machine, and one result in the stream."""

    async def run() -> None:
        event = request("create_machine")
        with linked(tmp_path / "b", nats_server, slow, "create_machine", LIMIT) as (other, configured):
            async with producer(nats_server, configured) as heard:
                with linked(tmp_path / "a", nats_server, slow, "create_machine", LIMIT) as (one, _):
                    put_off(await asyncio.to_thread(one.send, event))
                    await asyncio.to_thread(until, lambda: slow.control.calls()["CloneVM_Task"])
                    one.tell(signal.SIGTERM)
                    assert await asyncio.to_thread(one.ended) == 0
                made = await asyncio.to_thread(answered, other, event)
                assert await heard.stored(event) == made
                assert (await heard.js.stream_info("VSPHERE_RESULTS")).state.messages == 1
                assert await asyncio.to_thread(other.call, event) == made

    asyncio.run(run())
    assert made_once(slow)
