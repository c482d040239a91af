"""Knative's rules for delivery, as a table of what the HTTP host answers and what every sender makes of it."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from support.http_host import HttpHost, request, result_of, running, settings_of, toml, until
from support.knative import SENDERS, Verdict, deliver
from support.manifests import of_kind
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_http
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Kind, event_type
from vsphere_functions.hosts.http_receive import LARGEST
from vsphere_functions.local.vcenter import SimulatedVCenter

ATTEMPTS = 3


@pytest.fixture(scope="module")
def router(shared_vcenter: SimulatedVCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    limits = toml("limits", {"attempts": ATTEMPTS, "retry_seconds": 0.1})
    with running(tmp_path_factory.mktemp("router"), settings_of(shared_vcenter) + limits) as host:
        yield host


def used(host: HttpHost) -> CloudEvent:
    """Another source's event with an id that one has used."""
    host.call(request("delete_machine", "nobody", id="used"))
    return request("delete_machine", "nobody", id="used", source="/another")


def posted(host: HttpHost, path: str = "/", **changed: str) -> httpx.Response:
    """Post a reading request with other headers."""
    headers, body = to_http(request("get_volume_ids", data={"pvSpecList": []}), Mode.BINARY)
    return host.client.post(
        path,
        headers=headers | {name.replace("_", "-"): value for name, value in changed.items()},
        content=body,
    )


Situation = Callable[[HttpHost], httpx.Response]
ANSWERS: dict[str, tuple[Situation, int, Verdict]] = {
    "done": (lambda host: host.send(request("delete_machine", "nobody")), 200, Verdict.DONE),
    "done, and failed": (lambda host: host.send(request("shut_down_machine", "nobody")), 200, Verdict.DONE),
    "a reading": (posted, 200, Verdict.DONE),
    "invalid data": (lambda host: host.send(request("create_machine", data={})), 200, Verdict.DONE),
    "by the path of the function": (lambda host: posted(host, "/get_volume_ids"), 200, Verdict.DONE),
    "no event": (lambda host: host.client.post("/", content=b"OK"), 400, Verdict.DEAD),
    "an event of others": (lambda host: posted(host, ce_type="com.example.order"), 400, Verdict.DEAD),
    "a result": (
        lambda host: posted(host, ce_type=event_type("get_volume_ids", Kind.SUCCEEDED)),
        400,
        Verdict.DEAD,
    ),
    "another version": (lambda host: posted(host, ce_specversion="0.3"), 400, Verdict.DEAD),
    "a batch": (
        lambda host: posted(host, content_type="application/cloudevents-batch+json"),
        400,
        Verdict.DEAD,
    ),
    "the path of nothing": (lambda host: posted(host, "/get_dog"), 400, Verdict.DEAD),
    "a used id": (lambda host: host.send(used(host)), 400, Verdict.DEAD),
    "an unknown vCenter": (lambda host: posted(host, ce_vcenter="other"), 400, Verdict.DEAD),
    "too large": (lambda host: host.client.post("/", content=b" " * (LARGEST + 1)), 413, Verdict.DEAD),
}


@pytest.mark.parametrize("situation", ANSWERS)
def test_an_answer_means_the_same_to_every_sender(router: HttpHost, situation: str) -> None:
    """So none of them sends again what can never work, and none gives up what can."""
    send, status, verdict = ANSWERS[situation]
    answer = send(router)
    assert answer.status_code == status, answer.text
    assert {sender(status) for sender in SENDERS} == {verdict}
    if verdict is Verdict.DONE:
        result_of(answer)


def test_what_is_put_off_is_sent_again_by_every_sender(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    vcenter.control.delay(CloneVm=30_000)
    with running(tmp_path, settings_of(vcenter)) as host, ThreadPoolExecutor(1) as pool:
        event = request("create_machine")
        create = pool.submit(host.send, event)
        until(lambda: vcenter.control.calls()["CloneVM_Task"])
        putting_off = [host.send(event), host.send(request("delete_machine"))]
        host.tell(signal.SIGTERM)
        for answer in (*putting_off, create.result()):
            assert {sender(answer.status_code) for sender in SENDERS} == {Verdict.AGAIN}
            assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_events_are_posted_and_a_sender_that_asks_is_told(router: HttpHost, method: str) -> None:
    answer = router.client.request(method, "/", headers={"WebHook-Request-Origin": "broker.example"})
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert "webhook-allowed-origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AAMAAABkAAQAAP__"},
        {"Expect": "100-continue"},
        {"Prefer": "reply, respond-async, wait=10"},
    ],
    ids=["upgrade", "expect", "prefer"],
)
def test_what_a_sender_wishes_beside_is_passed_over(router: HttpHost, headers: dict[str, str]) -> None:
    result_of(posted(router, **headers))


@pytest.mark.parametrize("mode", Mode)
def test_a_delivery_that_is_repeated_with_other_traces_is_the_same_event(
    router: HttpHost, mode: Mode
) -> None:
    """Senders may change attributes between attempts; source and id are what tells events apart."""
    event = request("delete_machine", "nobody")
    first = deliver(router, event, mode, 0)
    stamps = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "knativearrivaltime": "2026-11-29T12:00:00Z",
        "knativeerrorcode": "503",
    }
    again = deliver(router, request("delete_machine", "nobody", id=event.id, extensions=stamps), mode, 0)
    assert first.reply is not None
    assert again.reply == first.reply


@pytest.mark.parametrize("mode", Mode)
def test_a_reply_matches_no_trigger_and_no_request_goes_to_the_broker_s_dead_letters(
    vcenter: SimulatedVCenter, tmp_path: Path, mode: Mode
) -> None:
    """All attempts of ours fit into a trigger's, so that its producer hears a failed result."""
    triggers = of_kind("Trigger", "knative")
    matched = {one["spec"]["filter"]["attributes"]["type"] for one in triggers}
    assert matched == {event_type(function, Kind.REQUEST) for function in FUNCTIONS}
    (retries,) = {one["spec"]["delivery"]["retry"] for one in triggers}
    limits = toml("limits", {"attempts": ATTEMPTS, "retry_seconds": 0.1})
    vcenter.control.add_fault("CloneVM_Task", "HostCommunication")
    with running(tmp_path, settings_of(vcenter) + limits) as host:
        delivery = deliver(host, request("create_machine"), mode, retries)
    assert delivery.statuses == (503,) * (ATTEMPTS - 1) + (200,)
    assert delivery.verdict is Verdict.DONE
    assert delivery.reply is not None
    assert delivery.reply.type == event_type("create_machine", Kind.FAILED)
    assert delivery.reply.type not in matched
