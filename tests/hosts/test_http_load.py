"""Probes, many requests at once, callers that go away, failures that pass, and an orderly end."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from support.http_host import HttpHost, request, running, settings_of, toml, until
from support.machines import vms
from support.proxy import Proxy
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.local.vcenter import SimulatedVCenter

MACHINE = "/DC0/vm/demo/machines/worker-1"
FAST = toml("limits", {"attempts": 3, "retry_seconds": 1.5})


@pytest.mark.parametrize("target", ["create_machine", None])
def test_probes_tell_whether_the_vcenter_answers(
    shared_vcenter: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    """E17 without NATS."""
    with (
        before(shared_vcenter) as proxy,
        running(tmp_path, settings_of(shared_vcenter, proxy.port), target) as host,
    ):
        assert host.client.get("/readyz").json() == {"status": "ok"}
        proxy.refuse()
        assert host.client.get("/readyz").status_code == 503
        response = host.client.get("/readyz")
        assert response.text.endswith("}\n")
        problems = response.json()["problems"]
        assert list(problems) == ["vcenter default"]
        assert problems["vcenter default"].startswith("Unavailable: ")
        assert host.log.count("a vCenter cannot be used") == 1, "once, however many probes"
        assert host.client.get("/healthz").status_code == 200
        assert host.client.head("/healthz").status_code == 200
        proxy.resume()
        until(lambda: host.client.get("/readyz").status_code == 200)
        assert "a vCenter answers again" in host.log


def test_a_vcenter_that_swallows_everything_does_not_hold_probes_up(
    shared_vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with before(shared_vcenter) as proxy, running(tmp_path, settings_of(shared_vcenter, proxy.port)) as host:
        proxy.black_hole()
        for _ in range(2):
            response = host.client.get("/readyz")
            assert response.json()["problems"] == {"vcenter default": "no answer in time"}
        assert host.client.get("/healthz").elapsed.total_seconds() < 1


@pytest.mark.parametrize("target", ["create_machine", None])
def test_probes_answer_at_once_while_nine_creates_run_and_the_tenth_is_put_off(
    vcenter: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    """E27."""
    vcenter.control.delay(CloneVm=3000)
    settings = settings_of(vcenter) + toml("http", {"slots": 9})
    # Caps far above nine: those who go for the last slot at once may be put off by each other.
    caps = ("creates_per_vcenter", "creates_per_template", "creates_per_datastore")
    settings += toml("limits", dict.fromkeys(caps, 64))
    with running(tmp_path, settings, target) as host, ThreadPoolExecutor(9) as pool:
        creates = [pool.submit(host.call, request("create_machine", f"w-{n}")) for n in range(9)]
        until(lambda: vcenter.control.calls()["CloneVM_Task"] == 9)
        assert host.client.get("/healthz").status_code == 200
        assert host.client.get("/readyz").status_code == 200
        put_off(host.send(request("create_machine", "w-10")))
        assert not any(create.done() for create in creates)
        assert {create.result().data["nodeName"] for create in creates} == {f"w-{n}" for n in range(9)}


def test_a_request_whose_caller_goes_away_goes_on_and_the_next_try_has_its_result(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    vcenter.control.delay(CloneVm=1500)
    event = request("create_machine")
    with running(tmp_path, settings_of(vcenter)) as host:
        with pytest.raises(httpx.ReadTimeout):
            impatient(host, event)
        busy = put_off(host.send(event))
        assert "another delivery" in busy
        until(lambda: host.send(event).status_code == 200)
        assert vcenter.control.calls()["CloneVM_Task"] == 1
        assert host.call(event).data["nodeName"] == "worker-1"


def test_two_requests_for_one_machine_do_not_run_at_once(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    vcenter.control.delay(CloneVm=1500)
    with running(tmp_path, settings_of(vcenter)) as host, ThreadPoolExecutor(1) as pool:
        create = pool.submit(host.call, request("create_machine"))
        until(lambda: vcenter.control.calls()["CloneVM_Task"])
        delete = request("delete_machine")
        assert "holds the machine" in put_off(host.send(delete))
        create.result()
        host.call(delete)
        assert MACHINE not in vms(vcenter)


def test_a_failure_that_passes_is_503_until_the_last_try_and_then_a_failed_result(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """Tries count in the record, so a broker that never stops is answered in the end."""
    vcenter.control.add_fault("CloneVM_Task", "HostCommunication")
    event = request("create_machine")
    with running(tmp_path, settings_of(vcenter) + FAST) as host:
        pauses = [retry_after(host.send(event)) for _ in range(2)]
        failed = host.call(event)
        vcenter.control.clear_faults()
        assert pauses[0] == 2, "1.5 s, spread by a fifth"
        assert 5 <= pauses[1] <= 8, "four times that"
        assert failed.data["error"]["code"] == "Unavailable"
        assert failed.data["error"]["retryable"] is True
        assert host.call(event) == failed, "a finished id is final"
        assert host.call(request("create_machine")).data["nodeName"] == "worker-1"


def test_a_failure_that_passes_is_made_good_by_the_next_try(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    vcenter.control.add_fault("CloneVM_Task", "HostCommunication", count=1)
    event = request("create_machine")
    with running(tmp_path, settings_of(vcenter), "create_machine") as host:
        assert "Unavailable" in put_off(host.send(event))
        assert host.call(event).data["nodeName"] == "worker-1"


def test_a_reading_function_answers_an_outage_at_once_as_its_result(
    shared_vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with before(shared_vcenter) as proxy, running(tmp_path, settings_of(shared_vcenter, proxy.port)) as host:
        proxy.refuse()
        result = host.call(request("get_machine_status"))
        assert result.data["error"]["code"] == "Unavailable"


@pytest.mark.parametrize("target", ["create_machine", None])
def test_sigterm_lets_a_create_check_in_and_the_next_process_finishes_it(
    vcenter: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    """E13, its HTTP half."""
    vcenter.control.delay(CloneVm=2500)
    event = request("create_machine")
    with running(tmp_path, settings_of(vcenter), target) as host, ThreadPoolExecutor(1) as pool:
        create = pool.submit(host.send, event)
        until(lambda: vcenter.control.calls()["CloneVM_Task"])
        host.tell(signal.SIGTERM)
        assert "shutting down" in put_off(create.result())
        assert host.ended() == 0
    with running(tmp_path, settings_of(vcenter), target) as host:
        assert host.call(event).data["nodeName"] == "worker-1"
    assert [path for path in vms(vcenter) if "worker" in path] == [MACHINE]


@pytest.mark.parametrize("target", ["get_machine_status", None])
def test_sigterm_waits_for_answers_and_puts_new_requests_off(
    vcenter: SimulatedVCenter, tmp_path: Path, target: str | None
) -> None:
    vcenter.control.delay(CreateContainerView=1500, FindAllByUuid=1500)
    with running(tmp_path, settings_of(vcenter), target) as host, ThreadPoolExecutor(1) as pool:
        status = pool.submit(host.call, request("get_machine_status"))
        until(
            lambda: vcenter.control.calls()["FindAllByUuid"] + vcenter.control.calls()["CreateContainerView"]
        )
        host.tell(signal.SIGTERM)
        until(lambda: "shutting down" in host.client.get("/readyz").text)
        assert "shutting down" in put_off(host.send(request("get_machine_status")))
        assert status.result().data["error"]["code"] == "NotFound"
        assert host.ended() == 0


def before(vcenter: SimulatedVCenter) -> Proxy:
    return Proxy(vcenter.host, vcenter.port)


def impatient(host: HttpHost, event: CloudEvent) -> httpx.Response:
    headers, body = to_http(event, Mode.BINARY)
    return httpx.post(host.url, headers=headers, content=body, timeout=0.5)


def put_off(response: httpx.Response) -> str:
    """See that the caller is asked to come again, and give the reason."""
    assert response.status_code == 503, response.text
    assert retry_after(response) >= 1
    message: str = response.json()["error"]["message"]
    return message


def retry_after(response: httpx.Response) -> int:
    return int(response.headers["retry-after"])
