"""The functions of the generated stack behind of-watchdog's HTTP mode, by its documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest
import yaml

from support.http_host import free_port, request, result_of, until
from support.image import Image, stages
from support.machines import vms
from support.nats_files import seed, server, written
from support.proxy import Proxy
from support.watchdog import Watchdog, watchdog
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_functions.cli.infra import facts, openfaas
from vsphere_functions.cli.infra.__main__ import INFRA
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.runtime.settings_load import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_functions.local.vcenter import SimulatedVCenter

PATIENCE = 60
STACK = yaml.safe_load((INFRA / "openfaas" / "stack.yaml").read_text())["functions"]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.link()
    return made


def environment(name: str, folder: Path, vcenter: SimulatedVCenter) -> dict[str, str]:
    """The variables of the image and of the function; addresses and files are those of this place."""
    port = str(free_port())
    built = stages(INFRA / "openfaas" / "Dockerfile")[-1].pairs("ENV")
    given = {key: value.replace(built["PORT"], port) for key, value in built.items()}
    given |= STACK[name]["environment"]
    given["TMPDIR"] = str(folder / given["TMPDIR"].lstrip("/"))
    place = {facts.url_of("default"): vcenter.url, facts.USER: vcenter.username}
    given = {key: place.get(value, value) for key, value in given.items()}
    given[facts.environment("vcenters.<name>.ca_file", "default")] = str(vcenter.ca_file)
    (folder / "password").write_text(vcenter.password)
    given[facts.environment("vcenters.<name>.password_file", "default")] = str(folder / "password")
    return given


@contextmanager
def function(
    name: str, image: Image, folder: Path, vcenter: SimulatedVCenter, **other: str
) -> Iterator[Watchdog]:
    """A function of the stack, with NATS as in the stack, ready."""
    files = written(folder / "nats", vcenter)
    with server(files) as nats:
        given = environment(name, folder, vcenter)
        own = {
            facts.Site().nats_url: nats.url.replace("nats:", "tls:"),
            f"{openfaas.SECRETS}/{facts.NAME}-nats-key": seed(files, "worker"),
            f"{openfaas.SECRETS}/{facts.NAME}-nats-ca": str(files / "tls" / "ca.crt"),
        }
        assert own.keys() <= set(given.values()), "the stack names other places"
        given = {key: own.get(value, value) for key, value in given.items()} | other
        prepared = {key: value for key, value in given.items() if key.startswith("VSPHERE")}
        prepared[facts.environment("nats.nkey_seed_file")] = seed(files, "setup")
        prepared[facts.environment("nats.inbox_prefix")] = facts.inbox_of("setup")
        setup(load(None, prepared))
        with watchdog(image, folder, given) as one:
            until(lambda: one.process.poll() is not None or ready(one) == 200, PATIENCE)
            assert one.process.poll() is None, one.log
            yield one


def through(port: int) -> dict[str, str]:
    """Settings that lead to the vCenter by another port."""
    return {facts.environment("vcenters.<name>.url", "default"): f"https://127.0.0.1:{port}/sdk"}


def ready(one: Watchdog) -> int:
    return httpx.get(f"{one.url}/_/ready", timeout=PATIENCE).status_code


def send(one: Watchdog, event: CloudEvent, mode: Mode = Mode.BINARY, path: str = "/") -> httpx.Response:
    headers, body = to_http(event, mode)
    return httpx.post(one.url + path, headers=headers, content=body, timeout=PATIENCE)


def reading(name: str = "worker-1") -> CloudEvent:
    return request("get_machine_status", name)


def test_calls_go_through_with_their_headers_and_bodies_and_one_too_many_is_429(
    image: Image, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with function("get-machine-status", image, tmp_path, vcenter) as one:
        assert one.lock_file == tmp_path / "tmp" / ".lock", "OpenFaaS looks there"
        event = request("get_machine_status", extensions={"team": "Köln %"})
        for mode in Mode:
            answer = send(one, event, mode)
            result = result_of(answer, mode)
            assert result.extensions["correlationid"] == event.id
            assert float(answer.headers["x-duration-seconds"]) > 0
        bare = httpx.post(one.url, content=to_http(event, Mode.STRUCTURED)[1], timeout=PATIENCE)
        assert from_http(bare.headers, bare.content).mode is Mode.STRUCTURED, (
            "as the connector for NATS calls"
        )
        assert (
            result_of(send(one, event, path="/any/path?with=query")).extensions["correlationid"] == event.id
        )
        assert httpx.get(one.url, timeout=PATIENCE).status_code == 405
        assert httpx.post(one.url, content=b"[]", timeout=PATIENCE).status_code == 400


def test_one_call_more_than_the_stack_allows_is_429_and_no_call_less(
    image: Image, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with (
        Proxy(vcenter.host, vcenter.port) as proxy,
        function("get-machine-status", image, tmp_path, vcenter, **through(proxy.port)) as one,
        ThreadPoolExecutor(one.most) as pool,
    ):
        proxy.black_hole()
        calls = [pool.submit(send, one, reading(f"w-{number}")) for number in range(one.most)]
        until(lambda: one.inflight == one.most, PATIENCE)
        assert ready(one) == 429
        assert send(one, reading()).status_code == 429
        assert not any(call.done() for call in calls)
        proxy.resume()
        assert {call.result().status_code for call in calls} == {200}


@pytest.mark.parametrize(
    ("limit", "status"),
    [({"exec_timeout": "1s"}, 504), ({facts.environment("http.answer_seconds"): "1"}, 503)],
    ids=["the watchdog's", "ours"],
)
def test_a_create_beyond_a_limit_goes_on_and_a_later_call_has_its_result(
    image: Image, vcenter: SimulatedVCenter, tmp_path: Path, limit: dict[str, str], status: int
) -> None:
    """Ours comes first as the stack is: it tells when to call again, which the watchdog's does not."""
    vcenter.control.delay(CloneVm=2500)
    event = request("create_machine")
    with function("create-machine", image, tmp_path, vcenter, **limit) as one:
        answer = send(one, event)
        assert (answer.status_code, "retry-after" in answer.headers) == (status, status == 503)
        until(lambda: send(one, event).status_code == 200, PATIENCE)
        assert result_of(send(one, event)).data["nodeName"] == "worker-1"
    assert vcenter.control.calls()["CloneVM_Task"] == 1
    assert len([path for path in vms(vcenter) if "worker" in path]) == 1


def test_sigterm_reaches_the_process_which_answers_before_it_ends(
    image: Image, vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    vcenter.control.delay(CloneVm=30_000)
    event = request("create_machine")
    with (
        function("create-machine", image, tmp_path, vcenter) as one,
        ThreadPoolExecutor(1) as pool,
    ):
        assert httpx.get(f"{one.url}/_/health", timeout=PATIENCE).status_code == 200
        asked = pool.submit(send, one, event)
        until(lambda: vcenter.control.calls()["CloneVM_Task"], PATIENCE)
        one.terminate()
        assert httpx.get(f"{one.url}/_/health", timeout=PATIENCE).status_code == 503
        assert send(one, event).status_code in {500, 503}, "what it takes until it leaves is asked for again"
        answer = asked.result()
        assert answer.status_code == 503
        assert "shutting down" in answer.text
        assert one.process.wait(PATIENCE) == 0
        one.leave()
