"""Pods of the generated manifests, run by hand: Knative's, and those of plain Kubernetes."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest

from support.http_host import request, result_of, until
from support.image import Image
from support.machines import vms
from support.nats_files import PRODUCER, as_user, server, written
from support.pod import PATIENCE, QUEUE_PROXY, Cluster, Pod, pod, revision
from vsphere_events.client import SyncClient
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.local.examples import example

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_events.cloud_event import CloudEvent
    from vsphere_functions.local.vcenter import SimulatedVCenter

BROKER = {
    "Prefer": "reply",
    "Kn-Namespace": "vsphere",
    "X-Forwarded-For": "10.0.0.9, 127.0.0.3",
    "X-Forwarded-Proto": "http",
    "Forwarded": "for=10.0.0.9;proto=http",
    "K-Proxy-Request": "activator",
    "X-Request-Id": "3f1c9e",
    "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}
"""What the broker, the activator and the sidecar put beside an event."""


@pytest.fixture(scope="module")
def site(shared_vcenter: SimulatedVCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A NATS server with logins and TLS, set up by the Job of the manifests."""
    vcenter = shared_vcenter
    image = Image(tmp_path_factory.mktemp("image"))
    image.link()
    files = written(tmp_path_factory.mktemp("nats"), vcenter)
    with server(files) as nats:
        made = Cluster(image, tmp_path_factory.mktemp("pods"), nats, files, vcenter)
        with pod(made, "setup", "Job", "kubernetes/setup") as job:
            assert job.process.wait(PATIENCE) == 0, job.log
        yield made


@pytest.fixture
def cluster(site: Cluster, tmp_path: Path) -> Cluster:
    """The same, with pods of the test's own."""
    site.vcenter.control.delay(CloneVm=0, CreateContainerView=0, FindAllByUuid=0)
    site.vcenter.control.reset_calls()
    return replace(site, folder=tmp_path)


def send(one: Pod, event: CloudEvent) -> httpx.Response:
    headers, body = to_http(event, Mode.BINARY)
    return httpx.post(one.url, headers={**BROKER, **headers}, content=body, timeout=PATIENCE)


def test_a_revision_does_as_many_calls_at_once_as_it_is_sent(cluster: Cluster) -> None:
    """The sidecar lets `containerConcurrency` through, and holds others back itself."""
    with revision(cluster, "a", "get-machine-status") as one, ThreadPoolExecutor(64) as pool:
        assert one.environment["FUNCTION_TARGET"] == "get_machine_status"
        send(one, request("get_machine_status"))
        cluster.vcenter.control.delay(CreateContainerView=1500, FindAllByUuid=1500)
        count = one.spec["containerConcurrency"]
        events = [request("get_machine_status", f"w-{number}") for number in range(count)]
        answers = list(pool.map(lambda event: send(one, event), events))
        assert [answer.status_code for answer in answers] == [200] * count
        assert {result_of(answer).subject for answer in answers} == {f"w-{number}" for number in range(count)}
        assert one.probe("readinessProbe", QUEUE_PROXY)
        one.process.send_signal(signal.SIGTERM)
        assert one.leave() == 0


def test_a_revision_that_is_scaled_down_at_work_is_followed_by_one_that_finishes_it(cluster: Cluster) -> None:
    cluster.vcenter.control.delay(CloneVm=2500)
    event = request("create_machine", "worker-2")
    with revision(cluster, "a", "create-machine") as one, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(send, one, event)
        until(lambda: cluster.vcenter.control.calls()["CloneVM_Task"], PATIENCE)
        one.process.send_signal(signal.SIGTERM)
        answer = asked.result()
        assert answer.status_code == 503
        assert "shutting down" in answer.text
        assert one.leave() == 0
    with revision(cluster, "b", "create-machine") as other:
        made = result_of(send(other, event))
    assert made.type == "io.vspherefunctions.create_machine.succeeded.v1"
    assert cluster.vcenter.control.calls()["CloneVM_Task"] == 1
    assert len([path for path in vms(cluster.vcenter) if "worker-2" in path]) == 1


def test_a_worker_that_is_told_to_leave_hands_its_work_on(cluster: Cluster) -> None:
    cluster.vcenter.control.delay(CloneVm=2500)
    deployment = {"kind": "Deployment", "folder": "kubernetes/base", "of": "vsphere-functions-worker"}
    with (
        pod(cluster, "a", **deployment) as one,
        SyncClient(cluster.nats.url, **as_user(cluster.nats_files, PRODUCER)) as client,
    ):
        one.await_ready()
        with client.send("create_machine", example("create_machine")) as pending:
            until(lambda: cluster.vcenter.control.calls()["CloneVM_Task"], PATIENCE)
            one.process.send_signal(signal.SIGTERM)
            assert one.leave() == 0, one.log
            with pod(cluster, "b", **deployment):
                made = pending.result()
    assert made.node_name == "worker-1"
    assert cluster.vcenter.control.calls()["CloneVM_Task"] == 1


def test_a_router_is_ready_when_it_can_work_and_serves_every_function(cluster: Cluster) -> None:
    deployment = {"kind": "Deployment", "folder": "kubernetes/base", "of": "vsphere-functions-router"}
    with pod(cluster, "a", **deployment) as one:
        one.await_ready()
        cluster.nats.stop()
        until(lambda: not one.probe("readinessProbe"), PATIENCE)
        assert one.probe("livenessProbe"), "it would be killed for what others do"
        cluster.nats.start()
        one.await_ready()
        assert result_of(send(one, request("create_machine", "worker-3"))).data["nodeName"] == "worker-3"
        gone = result_of(send(one, request("delete_machine", "worker-3")))
        assert gone.type == "io.vspherefunctions.delete_machine.succeeded.v1"
        one.process.send_signal(signal.SIGTERM)
        assert one.leave() == 0
