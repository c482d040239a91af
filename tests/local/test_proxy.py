"""The proxy breaks connections as it is told, and only then."""

from __future__ import annotations

import http.client
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from support.proxy import Proxy
from support.soap import Soap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vsphere_functions.local.vcenter import SimulatedVCenter


class Echo(BaseHTTPRequestHandler):
    """Answers a POST with its body and remembers it."""

    protocol_version = "HTTP/1.1"
    seen: list[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(body.decode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture
def echo() -> Iterator[ThreadingHTTPServer]:
    Echo.seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: ThreadingHTTPServer) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo.server_port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    yield connection
    connection.close()


def ask(client: http.client.HTTPConnection, text: str) -> str:
    try:
        client.request("POST", "/", text)
        return client.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        client.close()
        raise


BROKEN = (OSError, http.client.HTTPException)


def test_it_relays_many_requests_over_one_connection(
    client: http.client.HTTPConnection, proxy: Proxy
) -> None:
    texts = ["one", "two" * 100_000, ""]
    assert [ask(client, text) for text in texts] == texts
    assert proxy.connections == 1


def test_the_reply_of_the_nth_match_is_lost_after_the_server_did_its_work(
    client: http.client.HTTPConnection, proxy: Proxy
) -> None:
    proxy.drop_reply("clone", nth=2)
    assert ask(client, "clone a") == "clone a"
    assert ask(client, "read") == "read"
    with pytest.raises(BROKEN):
        ask(client, "clone b")
    assert ask(client, "clone c") == "clone c"
    assert Echo.seen == ["clone a", "read", "clone b", "clone c"]
    assert proxy.dropped == 1


def test_a_cut_ends_what_is_open_and_nothing_else(client: http.client.HTTPConnection, proxy: Proxy) -> None:
    ask(client, "one")
    proxy.cut()
    with pytest.raises(BROKEN):
        ask(client, "two")
    assert ask(client, "three") == "three"


def test_refused_until_resumed(client: http.client.HTTPConnection, proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(BROKEN):
        ask(client, "one")
    proxy.resume()
    assert ask(client, "two") == "two"
    assert Echo.seen == ["two"]


def test_a_black_hole_takes_and_never_answers(client: http.client.HTTPConnection, proxy: Proxy) -> None:
    ask(client, "one")
    proxy.black_hole()
    assert client.sock is not None
    client.sock.settimeout(0.2)
    with pytest.raises(TimeoutError):
        ask(client, "two")
    proxy.resume()
    assert ask(client, "three") == "three"
    assert Echo.seen == ["one", "three"]


def test_soap_over_tls_is_matched_by_its_body(shared_vcenter: SimulatedVCenter) -> None:
    vcenter = shared_vcenter
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        Soap(vcenter, port=proxy.port) as through,
        Soap(vcenter) as direct,
    ):
        proxy.drop_reply("CloneVM_Task")
        with pytest.raises(BROKEN):
            through.start_clone("lost")
        assert vcenter.control.calls()["CloneVM_Task"] == 1
        while direct.find("/DC0/vm/demo/machines/lost") is None:
            pass
        assert through.find("/DC0") is not None
