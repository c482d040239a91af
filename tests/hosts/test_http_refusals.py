"""What is refused over HTTP, and that a refusal tells nothing of what was sent."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.http_host import HttpHost, request, running, toml
from vsphere_events.envelope import Mode

SECRET = "tiger-3f1c9e"
TYPE = "io.vspherefunctions.get_machine_status.request.v1"
BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/s",
    "ce-type": TYPE,
    "content-type": "application/json",
}
STRUCTURED = {"content-type": "application/cloudevents+json"}
NOWHERE = toml("vcenters.default", {"url": "https://127.0.0.1:9/sdk", "user": "u", "password": SECRET})


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    with running(tmp_path_factory.mktemp("router"), NOWHERE) as host:
        yield host


@pytest.fixture(scope="module")
def router_in_a_hurry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    http = {"receive_seconds": 0.3, "webhook_origins": ["eventgrid.example", "second.example"]}
    with running(tmp_path_factory.mktemp("hurry"), NOWHERE + toml("http", http)) as host:
        yield host


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in BINARY.items() if key != name}


def structured(**members: Any) -> str:
    given = {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": TYPE,
        "data": {"password": SECRET},
    } | members
    return httpx.Request(
        "POST", "http://x", json={k: v for k, v in given.items() if v is not ...}
    ).content.decode()


MALFORMED: dict[str, tuple[dict[str, str], str | bytes]] = {
    "binary without an id": (without("ce-id"), "{}"),
    "binary without a source": (without("ce-source"), "{}"),
    "binary without a type": (without("ce-type"), "{}"),
    "binary with an empty id": (BINARY | {"ce-id": ""}, "{}"),
    "binary of another version": (BINARY | {"ce-specversion": "0.3"}, "{}"),
    "binary with a bad time": (BINARY | {"ce-time": "yesterday"}, "{}"),
    "binary with two content types": (BINARY | {"ce-datacontenttype": "text/plain"}, "{}"),
    "binary with broken JSON": (BINARY, f'{{"password": "{SECRET}"'),
    "binary that is not UTF-8": (BINARY, b"\xff\xfe" + SECRET.encode()),
    "structured without a type": (STRUCTURED, structured(type=...)),
    "structured of another version": (STRUCTURED, structured(specversion="9")),
    "structured with a bad time": (STRUCTURED, structured(time=SECRET)),
    "structured with an object as an extension": (STRUCTURED, structured(myext={"a": SECRET})),
    "structured with bad base64": (STRUCTURED, structured(data=..., data_base64="@@@")),
    "structured with both kinds of data": (STRUCTURED, structured(data_base64="aGk=")),
    "structured that is no JSON": (STRUCTURED, SECRET),
    "structured null": (STRUCTURED, "null"),
    "a structured array": (STRUCTURED, f"[{structured()}]"),
    "plain JSON": ({"content-type": "application/json"}, f'{{"password": "{SECRET}"}}'),
    "no body at all": ({}, ""),
    "names too long to be answered": (BINARY | {"ce-id": "x" * 5000}, "{}"),
    "Avro": ({"content-type": "application/cloudevents+avro"}, SECRET),
    "an unknown type": (BINARY | {"ce-type": "com.example.made"}, "{}"),
    "an unknown function": (BINARY | {"ce-type": TYPE.replace("get_machine", "get_dog")}, "{}"),
    "a result": (BINARY | {"ce-type": TYPE.replace("request", "succeeded")}, "{}"),
    "a vCenter that is not configured": (BINARY | {"ce-vcenter": "other"}, "{}"),
    "a vCenter that no subject can name": (BINARY | {"ce-vcenter": "*"}, "{}"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_is_400_and_nothing_of_it_comes_back(router: HttpHost, name: str) -> None:
    headers, body = MALFORMED[name]
    refused(router.client.post("/", headers=headers | {"X-Api-Key": SECRET}, content=body), 400)
    assert SECRET not in router.log


@pytest.mark.parametrize(
    "body", ["[]", f"[{structured()}]", f"[{structured()},{structured(id='2')}]", "{", b"\xff"]
)
@pytest.mark.parametrize("more", [{}, BINARY])
def test_a_batch_is_400(router: HttpHost, body: str | bytes, more: dict[str, str]) -> None:
    """E07, its HTTP half: never a 500."""
    headers = more | {"content-type": "application/cloudevents-batch+json"}
    error = refused(router.client.post("/", headers=headers, content=body), 400)
    assert "batch" in error


def test_a_header_given_twice_is_400(router: HttpHost) -> None:
    headers = [*BINARY.items(), ("CE-Id", "2")]
    refused(router.client.post("/", headers=headers, content="{}"), 400)


def test_a_request_for_another_function_is_400_and_leaves_its_id_free(router: HttpHost) -> None:
    event = request("get_machine_status", data={})
    assert "get_machine_status" in refused(router.send(event, path="/create_machine"), 400)
    assert router.call(event).data["error"]["code"] == "InvalidArgument"
    said = refused(router.send(event, path="/get_dog"), 400)
    assert said == "no such function: get_dog; docs/reference/functions.md lists them"
    said = refused(router.send(event, path="/get_%3Cb%3E"), 400)
    assert said == "no such function; docs/reference/functions.md lists them"


@pytest.mark.parametrize("framing", ["Content-Length: 67108864", "Transfer-Encoding: chunked"])
def test_a_body_that_is_too_long_is_413_before_all_of_it_is_there(router: HttpHost, framing: str) -> None:
    with raw(router, framing) as sent:
        if framing.startswith("Transfer"):
            sent.sendall(b"110000\r\n" + b" " * 0x110000 + b"\r\n")
        assert sent.recv(100).startswith(b"HTTP/1.1 413 ")
    refused(router.client.post("/", headers=BINARY, content=b" " * (8 << 20)), 413)


def test_a_caller_that_leaves_in_the_middle_of_its_request_is_no_trouble(router: HttpHost) -> None:
    with raw(router, "Content-Length: 100") as sent:
        sent.sendall(b"{")
    assert router.call(request("get_volume_ids", data={"pvSpecList": []})).data == {"volumeIDs": []}
    assert "error" not in router.log.lower()


@pytest.fixture(scope="module", params=["router", "functions-framework"])
def impatient(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    soon, folder = toml("http", {"receive_seconds": 0.3}), tmp_path_factory.mktemp("impatient")
    with running(folder, NOWHERE + soon, None if request.param == "router" else "create_machine") as host:
        yield host


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_a_body_that_never_comes_is_408_and_the_connection_is_closed(
    impatient: HttpHost, framing: str
) -> None:
    with raw(impatient, framing) as sent:
        sent.settimeout(60)
        answer = b"".join(iter(lambda: sent.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("head", ["", "POST / HT", "POST / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_a_head_that_only_drips_in_closes_the_connection(router_in_a_hurry: HttpHost, head: str) -> None:
    url = httpx.URL(router_in_a_hurry.url)
    with socket.create_connection((url.host, url.port or 80), timeout=0.05) as sent:
        sent.sendall(head.encode())
        assert any(closed(sent) for _ in range(1000))


def closed(connection: socket.socket) -> bool:
    """Whether the other end has closed it; if not, one more byte goes there."""
    try:
        return connection.recv(100) == b""
    except TimeoutError:
        connection.sendall(b"x")
        return False
    except ConnectionError:
        return True


def test_a_connection_that_is_used_stays(router_in_a_hurry: HttpHost) -> None:
    for _ in range(3):
        assert router_in_a_hurry.client.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/", "POST"),
        ("PUT", "/", "POST"),
        ("DELETE", "/create_machine", "POST"),
        ("OPTIONS", "/", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/readyz", "GET, HEAD"),
    ],
)
def test_other_methods_are_405(router: HttpHost, method: str, path: str, allowed: str) -> None:
    response = router.client.request(method, path)
    refused(response, 405)
    assert response.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/", "/create_machine"])
def test_a_sender_that_the_settings_name_is_given_leave(router_in_a_hurry: HttpHost, path: str) -> None:
    """CloudEvents' HTTP webhooks, 4: as an event gateway asks before it delivers."""
    asked = {
        "WebHook-Request-Origin": "EventGrid.example",
        "WebHook-Request-Callback": router_in_a_hurry.url + "/healthz",
        "WebHook-Request-Rate": "120",
    }
    answer = router_in_a_hurry.client.options(path, headers=asked)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["webhook-allowed-origin"] == "EventGrid.example"
    assert answer.headers["webhook-allowed-rate"] == "*"
    assert answer.headers["allow"] == "POST, OPTIONS"


@pytest.mark.parametrize("path", ["/", "/create_machine", "/healthz", "/readyz"])
@pytest.mark.parametrize("origin", ["other.example", "*", "", "eventgrid.example.evil", None])
def test_any_other_sender_is_not(router_in_a_hurry: HttpHost, path: str, origin: str | None) -> None:
    asked = {} if origin is None else {"WebHook-Request-Origin": origin}
    answer = router_in_a_hurry.client.options(path, headers=asked)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("webhook-")]


def test_leave_is_given_for_no_path_that_is_no_function(router_in_a_hurry: HttpHost) -> None:
    asked = {"WebHook-Request-Origin": "eventgrid.example"}
    refused(router_in_a_hurry.client.options("/no_such_function", headers=asked), 400)


@pytest.mark.parametrize("mode", Mode)
def test_secrets_in_a_request_that_is_not_valid_come_back_nowhere(router: HttpHost, mode: Mode) -> None:
    secrets = {"vspherePassword": SECRET, "userData": SECRET, "surprise": SECRET}
    data = {
        "machineName": [SECRET],
        "providerSpec": {"network": {SECRET: SECRET}, "numCpus": SECRET},
        "secrets": secrets,
    }
    for function in ("create_machine", "get_machine_status", "delete_machine"):
        response = router.send(request(function, data=data), mode)
        assert response.status_code == 200
        assert '"InvalidArgument"' in response.text
        assert SECRET not in response.text
    assert SECRET not in router.log


def test_settings_of_no_use_are_not_ready_and_say_so_in_the_log_without_values(tmp_path: Path) -> None:
    event = request("get_machine_status")
    with running(tmp_path, NOWHERE + f'surprise = "{SECRET}"\n', "get_machine_status") as host:
        assert host.client.get("/healthz").status_code == 200
        assert host.client.get("/readyz").json()["problems"].keys() == {"settings"}
        assert host.send(event).status_code == 503
        assert "vcenters.default.surprise: unknown key" in host.log
        assert SECRET not in host.log


def raw(host: HttpHost, framing: str) -> socket.socket:
    """Send the head of a request and no more."""
    url = httpx.URL(host.url)
    connection = socket.create_connection((url.host, url.port or 80), timeout=10)
    lines = [f"{name}: {value}" for name, value in BINARY.items()]
    connection.sendall("\r\n".join(["POST / HTTP/1.1", "Host: x", framing, *lines, "", ""]).encode())
    return connection


def refused(response: httpx.Response, status: int) -> str:
    """See that it is our small error and nothing else, and give its message."""
    assert response.status_code == status, response.text
    assert response.json().keys() == {"error"}
    assert response.json()["error"].keys() == {"code", "message"}
    assert SECRET not in response.text
    assert SECRET not in str(response.headers)
    message: str = response.json()["error"]["message"]
    return message
