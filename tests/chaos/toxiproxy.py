"""Toxiproxy on a loopback port: TCP links that can be cut, stalled and slowed one by one."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from typing import Any, Self

from vsphere_functions.local.children import end, start
from vsphere_functions.local.tools import ensure
from vsphere_functions.local.vcenter import ask_json

START_SECONDS = 10


class Link:
    """One proxied address."""

    def __init__(self, api: Toxiproxy, name: str, listen: str) -> None:
        self._api = api
        self._name = name
        self.port = int(listen.rpartition(":")[2])

    def cut(self) -> None:
        """Close every connection, and take no new one until `heal`."""
        self._set(enabled=False)

    def stall(self) -> None:
        """Let nothing through in either direction, with the connections left open, until `heal`."""
        for stream in ("upstream", "downstream"):
            self._poison(f"stall-{stream}", "timeout", stream, timeout=0)

    def slow(self, milliseconds: int) -> None:
        """Delay every answer, until `heal`."""
        self._poison("slow", "latency", "downstream", latency=milliseconds)

    def heal(self) -> None:
        """Let everything through again."""
        for toxic in self._api.ask("GET", f"/proxies/{self._name}/toxics"):
            self._api.ask("DELETE", f"/proxies/{self._name}/toxics/{toxic['name']}")
        self._set(enabled=True)

    def _set(self, **fields: bool) -> None:
        self._api.ask("POST", f"/proxies/{self._name}", fields)

    def _poison(self, name: str, kind: str, stream: str, **attributes: int) -> None:
        toxic = {"name": name, "type": kind, "stream": stream, "attributes": attributes}
        self._api.ask("POST", f"/proxies/{self._name}/toxics", toxic)


class Toxiproxy:
    """The server, within a `with`; it dies with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    def __enter__(self) -> Self:
        (binary,) = ensure("toxiproxy")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        command = [str(binary), "-host", "127.0.0.1", "-port", str(self._port)]
        self._process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                self.ask("GET", "/proxies")
                return self
            time.sleep(0.01)
        self.__exit__()
        raise RuntimeError("toxiproxy did not start")

    def __exit__(self, *_: object) -> None:
        if self._process:
            end(self._process)
            self._process = None

    def link(self, name: str, port: int) -> Link:
        """Open a way to a loopback port."""
        wanted = {"name": name, "listen": "127.0.0.1:0", "upstream": f"127.0.0.1:{port}", "enabled": True}
        return Link(self, name, self.ask("POST", "/proxies", wanted)["listen"])

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Talk to its API."""
        return ask_json(f"127.0.0.1:{self._port}", method, path, body)
