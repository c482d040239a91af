"""The CloudEvents SDK as a foreign producer: it writes the request and reads the answer, we see neither."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent, from_http

from support.http_host import HttpHost, running, settings_of
from support.machines import SPEC, TAGS
from vsphere_functions.local.vcenter import SimulatedVCenter

TYPE = "io.vspherefunctions.{}.request.v1"


@pytest.fixture(scope="module")
def router(shared_vcenter: SimulatedVCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    with running(tmp_path_factory.mktemp("router"), settings_of(shared_vcenter)) as host:
        yield host


def ask(host: HttpHost, write: Callable[..., Any], function: str, data: Any, **more: str) -> CloudEvent:
    event = CloudEvent({"type": TYPE.format(function), "source": "/producers/sdk", **more}, data)
    headers, body = write(event)
    response = host.client.post("/", headers=headers, content=body)
    assert response.status_code == 200
    answer: CloudEvent = from_http(dict(response.headers), response.content)
    assert answer["correlationid"] == event["id"]
    assert answer["causationsource"] == "/producers/sdk"
    assert answer["id"] == f"{event['id']}.result"
    return answer


def data_of(event: CloudEvent) -> dict[str, Any]:
    data = event.get_data()
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("write", [to_binary, to_structured])
def test_the_sdk_makes_asks_for_and_removes_a_machine(router: HttpHost, write: Callable[..., Any]) -> None:
    made = ask(router, write, "create_machine", {"machineName": "sdk-1", "providerSpec": SPEC})
    assert made["type"] == "io.vspherefunctions.create_machine.succeeded.v1"
    assert made["subject"] == "sdk-1"
    one = {"machineName": "sdk-1", "providerSpec": {"tags": TAGS}}
    status = ask(router, write, "get_machine_status", one)
    assert data_of(status)["providerID"] == data_of(made)["providerID"]
    gone = ask(router, write, "delete_machine", one)
    assert gone["type"] == "io.vspherefunctions.delete_machine.succeeded.v1"


@pytest.mark.parametrize("write", [to_binary, to_structured])
def test_what_brokers_add_does_no_harm(router: HttpHost, write: Callable[..., Any]) -> None:
    """Knative stamps events on their way, and its dead letters too."""
    stamps = {
        "knativearrivaltime": "2026-11-29T12:00:00Z",
        "knativebrokerttl": "255",
        "knativeerrorcode": "503",
    }
    answer = ask(router, write, "get_volume_ids", {"pvSpecList": []}, **stamps, vcenter="default")
    assert answer.get_data() == {"volumeIDs": []}
    assert answer["type"] != TYPE.format("get_volume_ids"), "an answer that fits the trigger would loop"


def test_an_event_whose_headers_were_lost_is_read(router: HttpHost) -> None:
    """E06 over HTTP: OpenFaaS's connector sends the body alone."""
    event = CloudEvent(
        {"type": TYPE.format("get_volume_ids"), "source": "/s", "id": "bare"}, {"pvSpecList": []}
    )
    _, body = to_structured(event)
    response = router.client.post("/", content=body)
    assert response.headers["content-type"] == "application/cloudevents+json"
    assert from_http(dict(response.headers), response.content)["correlationid"] == "bare"


@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("VM-K%C3%B6ln%20%E2%82%AC", "VM-K%C3%B6ln%20%E2%82%AC"),
        ("VM-Köln €".encode(), "VM-K%C3%B6ln%20%E2%82%AC"),
        ("100%", "100%25"),
    ],
)
def test_attributes_are_read_encoded_and_raw(router: HttpHost, sent: str | bytes, written: str) -> None:
    """E05 over HTTP."""
    headers: list[tuple[str, str | bytes]] = [
        ("ce-specversion", "1.0"),
        ("ce-id", sent),
        ("ce-source", "/s"),
        ("ce-type", TYPE.format("get_volume_ids")),
        ("content-type", "application/json"),
    ]
    raw = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
    response = router.client.post("/", headers=raw, content='{"pvSpecList": []}')
    assert response.status_code == 200
    assert response.headers["ce-correlationid"] == written
