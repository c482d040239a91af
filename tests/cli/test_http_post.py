"""Sending an event over HTTP, against a server that answers as it is told."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from vsphere_events.client import request_event
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_events.error import CallError
from vsphere_functions.cli.http_post import address, post

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = tuple[int, dict[str, str], bytes]

EVENT = request_event("get_machine_status", {"machineName": "worker-1"}, id="req-1")
OK: Answer = (200, *to_http(EVENT, Mode.STRUCTURED))


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, *answers: Answer) -> Iterator[list[bytes]]:
    """A server that gives these answers in turn, and what it was sent."""
    left, heard = list(answers), list[bytes]()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, body = left.pop(0)
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HTTP_URL", f"http://127.0.0.1:{server.server_port}")
        yield heard
        server.shutdown()


def test_the_answer_is_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, OK) as heard:
        assert post(EVENT, address(), 5) == EVENT
    assert from_http({"Content-Type": "application/cloudevents+json"}, heard[0]).event == EVENT


def test_503_asks_for_the_same_event_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, (503, {"Retry-After": "0"}, b"{}"), OK) as heard:
        assert post(EVENT, address(), 5) == EVENT
    assert heard[0] == heard[1]


@pytest.mark.parametrize(
    ("status", "body", "code", "message"),
    [
        (400, b'{"error": {"code": "InvalidArgument", "message": "no"}}', Code.INVALID_ARGUMENT, "no"),
        (503, b'{"error": {"code": "Unavailable", "message": "later"}}', Code.UNAVAILABLE, "later"),
        (502, b"<html>", Code.UNKNOWN, "the HTTP host answers 502"),
        (500, b"[]", Code.UNKNOWN, "the HTTP host answers 500"),
        (200, b"OK", Code.INVALID_ARGUMENT, "not JSON"),
    ],
)
def test_an_answer_without_an_event_is_a_call_error(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, code: Code, message: str
) -> None:
    with answering(monkeypatch, (status, {"Retry-After": "60"}, body)), pytest.raises(CallError) as raised:
        post(EVENT, address(), 5)
    assert raised.value.code is code
    assert message in raised.value.message


def test_a_server_that_does_not_answer_in_time_is_deadline_exceeded(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HTTP_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(CallError) as raised:
            post(EVENT, address(), 0.2)
    assert raised.value.code is Code.DEADLINE_EXCEEDED
