"""The service in this process: what it leaves behind when a vCenter does not let it go."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from support.http_host import request, until
from support.proxy import Proxy
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.hosts.http import handle
from vsphere_functions.hosts.http_answers import answer_to
from vsphere_functions.hosts.http_service import Service
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.perform import Lost
from vsphere_functions.runtime.settings import Settings, SettingsError, VCenter, Worker


def posted(event: CloudEvent) -> Request:
    headers, body = to_http(event, Mode.BINARY)

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request(
        {"type": "http", "method": "POST", "path": "/", "headers": raw, "query_string": b""}, receive
    )


def settings_for(vcenter: SimulatedVCenter, port: int) -> Settings:
    url = f"https://127.0.0.1:{port}/sdk"
    one = VCenter(url=url, user=vcenter.username, password=vcenter.password, ca_file=vcenter.ca_file)
    return Settings(vcenters={"default": one}, worker=Worker(drain_seconds=0.5))


def test_a_request_that_does_not_end_in_time_is_put_off_and_left_to_its_lease(
    shared_vcenter: SimulatedVCenter,
) -> None:
    async def run(proxy: Proxy) -> Response:
        service = Service(settings_for(shared_vcenter, proxy.port))
        proxy.black_hole()
        asked = asyncio.create_task(service.respond(posted(request("create_machine")), None))
        await asyncio.to_thread(until, lambda: proxy.connections)
        await service.close()
        assert service.abandoned
        proxy.cut()
        return await asked

    with Proxy(shared_vcenter.host, shared_vcenter.port) as proxy:
        answer = asyncio.run(run(proxy))
    assert answer.status_code == 503
    assert b"shutting down" in bytes(answer.body)


def test_a_service_at_rest_leaves_nothing_behind(shared_vcenter: SimulatedVCenter) -> None:
    async def run() -> None:
        service = Service(settings_for(shared_vcenter, shared_vcenter.port))
        assert service.abandoned
        await service.close()
        assert not service.abandoned

    asyncio.run(run())


def test_settings_of_no_use_are_an_answer_too() -> None:
    def opened() -> Service:
        raise SettingsError("vcenters.default.url: is required")

    answer = asyncio.run(handle(posted(request("create_machine")), None, opened))
    assert answer.status_code == 503
    assert b"url" not in bytes(answer.body)


def test_a_try_that_was_overtaken_is_asked_for_again() -> None:
    answer = answer_to(Lost(), Mode.BINARY)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
