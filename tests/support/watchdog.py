"""of-watchdog in its HTTP mode, after its documents: what it does with its variables, calls and signals.

| variable or event | what it does |
|---|---|
| `fprocess` | split at spaces and started once, with the watchdog's own environment |
| `upstream_url` | gets each call: method, path and query, all headers, the host, the body in chunks |
| an answer | passed on with its status and headers; `X-Duration-Seconds` is added |
| `exec_timeout` | no answer within it: 504; the process hears nothing of it |
| nothing listens there | 500 |
| `max_inflight` | one call more: 429 at once |
| `/_/health` | 200 while the lock file in the folder for temporary files is there, else 503 |
| `/_/ready` | likewise; 429 at `max_inflight`; else what the process says to `ready_path` |
| SIGTERM | goes to the process at once, the lock file away; calls are taken for `healthcheck_interval` |
| … after that | those that run have `write_timeout` to end |
"""

from __future__ import annotations

import http.client
import re
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vsphere_functions.local.children import end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.image import Image

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Read a duration as Go writes it; a bare number is seconds."""
    if text.isdecimal():
        return float(text)
    parts = re.findall(r"([\d.]+)(ms|h|m|s)", text)
    assert "".join(number + unit for number, unit in parts) == text, text
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Watchdog:
    """Runs `fprocess` in an image and listens before it."""

    def __init__(self, image: Image, folder: Path, environment: dict[str, str]) -> None:
        assert environment["mode"] == "http"
        self._environment = environment
        self._upstream = urlsplit(environment["upstream_url"])
        self.most = int(environment.get("max_inflight", "0"))
        self.inflight = 0
        self._lock = threading.Lock()
        self._log = folder / "watchdog.log"
        self.lock_file = Path(environment["TMPDIR"]) / ".lock"
        self.process = image.run(self._log, image.here(environment["fprocess"]).split(" "), environment)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False  # its end waits for the calls that run
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._serving.start()
        self.lock_file.parent.mkdir(parents=True, exist_ok=True)
        self.lock_file.write_bytes(b"")

    @property
    def log(self) -> str:
        """What the process has written so far."""
        return self._log.read_text()

    def duration(self, name: str) -> float:
        """Give one of the variables that are durations; ten seconds without it."""
        return seconds(self._environment.get(name, "10s"))

    def terminate(self) -> None:
        """Do what it does first at SIGTERM."""
        self.process.terminate()
        self.lock_file.unlink()

    def leave(self) -> None:
        """Do what it does once `healthcheck_interval` is over; whoever calls this says that it is."""
        self._server.shutdown()
        deadline = time.monotonic() + self.duration("write_timeout")
        while self.inflight:
            assert time.monotonic() < deadline, "a call would be cut off"
            threading.Event().wait(0.02)

    def close(self) -> None:
        """Leave at once."""
        self._server.shutdown()
        self._server.server_close()
        self._serving.join()
        end(self.process, 10)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        watchdog = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                watchdog._serve(self)
                self.wfile.flush()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _serve(self, call: BaseHTTPRequestHandler) -> None:
        body = call.rfile.read(int(call.headers.get("Content-Length", "0")))
        if call.path == "/_/health":
            _reply(call, 200 if self.lock_file.exists() else 503)
        elif call.path == "/_/ready":
            self._ready(call)
        elif self._enter():
            try:
                self._forward(call, call.path, body)
            finally:
                self._count(-1)
        else:
            _reply(call, 429, f"Concurrent request limit exceeded. Max concurrent requests: {self.most}\n")

    def _ready(self, call: BaseHTTPRequestHandler) -> None:
        if not self.lock_file.exists():
            _reply(call, 503)
        elif self.most and self.inflight >= self.most:
            _reply(call, 429)
        else:
            self._forward(call, self._environment["ready_path"], b"")

    def _enter(self) -> bool:
        if self._count(1) <= (self.most or self.inflight):
            return True
        self._count(-1)
        return False

    def _count(self, by: int) -> int:
        with self._lock:
            self.inflight += by
            return self.inflight

    def _forward(self, call: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        begun = time.monotonic()
        host, port = self._upstream.hostname or "", self._upstream.port
        connection = http.client.HTTPConnection(host, port, timeout=self.duration("exec_timeout"))
        try:
            connection.putrequest(call.command, path, skip_host=True, skip_accept_encoding=True)
            for name, value in call.headers.items():
                if name.lower() not in {"content-length", "connection"}:
                    connection.putheader(name.title(), value)
            chunked = bool(body)
            if chunked:
                connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders([body] if chunked else None, encode_chunked=chunked)
            answer = connection.getresponse()
            headers = answer.getheaders()
            said = answer.read()
        except TimeoutError:
            _reply(call, 504)
        except (OSError, http.client.HTTPException):
            _reply(call, 500)
        else:
            headers.append(("X-Duration-Seconds", f"{time.monotonic() - begun:f}"))
            _reply(call, answer.status, said, headers)
        finally:
            connection.close()


def _reply(
    call: BaseHTTPRequestHandler,
    status: int,
    body: str | bytes = b"",
    headers: list[tuple[str, str]] | None = None,
) -> None:
    payload = body.encode() if isinstance(body, str) else body
    call.send_response_only(status)
    for name, value in headers or []:
        if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
            call.send_header(name.title(), value)
    call.send_header("Content-Length", str(len(payload)))
    call.end_headers()
    call.wfile.write(payload if call.command != "HEAD" else b"")


@contextmanager
def watchdog(image: Image, folder: Path, environment: dict[str, str]) -> Iterator[Watchdog]:
    """A watchdog, and its process, for as long as the block."""
    one = Watchdog(image, folder, environment)
    try:
        yield one
    finally:
        one.close()
