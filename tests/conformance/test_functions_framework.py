"""The cases of functions-framework's conformance suite, for functions that take CloudEvents and answer with one.

The suite's own client is no module that can be pinned; its cases are: what is sent arrives whole (HTTP, CloudEvents in
both content modes, with Google's payloads), background events of the old kind, and calls that run at the same time.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.http_host import MAIN, HttpHost, request, running, settings_of, until
from support.proxy import Proxy
from vsphere_events.envelope import Mode
from vsphere_events.subjects import request_token
from vsphere_functions.local.vcenter import SimulatedVCenter

CALLS = 10
"""As many as the suite sends at once."""

ATTRIBUTES: dict[str, Any] = {
    "id": "aaaaaa-1111/Zürich 100%",
    "source": "//pubsub.googleapis.com/projects/sample/topics/gcf-test",
    "subject": "documents/Köln/€ 100%",
    "time": "2020-09-29T11:32:00.123Z",
    "dataschema": "https://example.test/schema#1",
}
EXTENSIONS = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "rojo=00f067aa0ba902b7",
}

GOOGLES = {
    "google.cloud.pubsub.topic.v1.messagePublished": {
        "message": {"data": "dGVzdA==", "attributes": {"a": "b"}}
    },
    "google.cloud.storage.object.v1.finalized": {
        "bucket": "some-bucket",
        "name": "folder/Test.cs",
        "size": "352",
    },
    "google.firebase.auth.user.v1.created": {
        "uid": "UUpby3s4spZre6kHsgVSPetzQ8l2",
        "email": "test@nowhere.com",
    },
    "google.firebase.database.document.v1.written": {"data": None, "delta": {"grandchild": "other"}},
    "google.cloud.firestore.document.v1.written": {
        "oldValue": {},
        "value": {"fields": {"x": {"nullValue": None}}},
    },
}
LEGACY = {
    "in a context": {
        "context": {
            "eventId": "1215011316659232",
            "eventType": "google.pubsub.topic.publish",
            "timestamp": "2020-05-18T12:13:19.209Z",
            "resource": {"service": "pubsub.googleapis.com", "name": "projects/sample/topics/gcf-test"},
        },
        "data": {"data": "VGhpcyBpcyBhIHNhbXBsZSBtZXNzYWdl"},
    },
    "at the top": {
        "eventId": "aaaaaa-1111-bbbb-2222-cccccccccccc",
        "eventType": "providers/google.firebase.database/eventTypes/ref.write",
        "params": {"child": "xyz"},
        "data": {"data": None},
    },
    "pushed by Pub/Sub": {"message": {"data": "dGVzdA=="}, "subscription": "projects/sample/subscriptions/x"},
}


@pytest.fixture(scope="module")
def ids(shared_vcenter: SimulatedVCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    """One function under the framework, told everything by the environment, as buildpacks do."""
    told = {
        "FUNCTION_TARGET": "get_volume_ids",
        "FUNCTION_SOURCE": str(MAIN),
        "FUNCTION_SIGNATURE_TYPE": "cloudevent",
    }
    folder = tmp_path_factory.mktemp("framework")
    with running(folder, settings_of(shared_vcenter), **told) as host:
        yield host


@pytest.mark.parametrize("mode", Mode)
def test_what_is_sent_arrives_whole_and_the_answer_comes_back_whole(ids: HttpHost, mode: Mode) -> None:
    event = request("get_volume_ids", data={"pvSpecList": []}, **ATTRIBUTES, extensions=EXTENSIONS)
    answer = ids.call(event, mode)
    assert answer.data == {"volumeIDs": []}
    assert answer.id == f"{request_token(event.id)}.result"
    told = {**EXTENSIONS, "causationid": event.id, "causationsource": event.source}
    assert {name: answer.extensions[name] for name in told} == told


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("kind", GOOGLES)
def test_an_event_that_is_no_request_is_refused_and_is_no_crash(ids: HttpHost, mode: Mode, kind: str) -> None:
    event = request("get_volume_ids", **{**ATTRIBUTES, "type": kind, "data": GOOGLES[kind]})
    answer = ids.send(event, mode)
    assert answer.status_code == 400
    assert "x-google-status" not in answer.headers
    assert answer.json()["error"]["code"] == "InvalidArgument"


@pytest.mark.parametrize("kind", LEGACY)
def test_a_background_event_of_the_old_kind_is_refused_and_is_no_crash(ids: HttpHost, kind: str) -> None:
    answer = ids.client.post("/", json=LEGACY[kind])
    assert answer.status_code == 400
    assert "x-google-status" not in answer.headers


@pytest.mark.parametrize("body", ["PASS", ""])
def test_a_call_that_is_no_event_is_refused_and_is_no_crash(ids: HttpHost, body: str) -> None:
    answer = ids.client.post("/", content=body)
    assert answer.status_code == 400
    assert "x-google-status" not in answer.headers


def test_calls_run_at_the_same_time(shared_vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    """All of them are at the vCenter, which says nothing, while none has been answered."""
    with (
        Proxy(shared_vcenter.host, shared_vcenter.port) as proxy,
        running(tmp_path, settings_of(shared_vcenter, proxy.port), "get_machine_status") as host,
        ThreadPoolExecutor(CALLS) as pool,
    ):
        host.call(request("get_machine_status"))
        proxy.black_hole()
        calls = [pool.submit(host.call, request("get_machine_status", f"w-{n}")) for n in range(CALLS)]
        until(lambda: proxy.connections >= CALLS)
        assert not any(call.done() for call in calls)
        proxy.resume()
        assert {call.result().subject for call in calls} == {f"w-{n}" for n in range(CALLS)}
