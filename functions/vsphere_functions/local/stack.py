"""NATS, a simulated vCenter, and worker and router processes that use them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local import children
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import FILE, PREFIX
from vsphere_functions.runtime.settings_load import load

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

READY_SECONDS = 30


class StackError(Exception):
    """A process of the stack does not come up, or has ended; the message has the end of its log."""


class Server:
    """A command of ours that answers `/readyz` at `url` and logs to a file."""

    def __init__(self, name: str, url: str, log: Path, process: subprocess.Popen[str]) -> None:
        self.name = name
        self.url = url
        self.log = log
        self.process = process

    def await_ready(self) -> None:
        """Wait until it says that it can work; StackError when it does not."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            if _answers(f"{self.url}/readyz"):
                return
            time.sleep(0.02)
        raise StackError(f"the {self.name} is not ready:\n{self.tail()}")

    def tail(self) -> str:
        """Give the last lines that it has logged."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-20:])

    def stop(self) -> None:
        """Let it end in order."""
        children.end(self.process, seconds=25)  # a worker drains for 20


class Stack:
    """Servers, settings and streams, ready; workers and a router are started when they are asked for.

    `nats` is a server of one's own making. `sections` go over those of the settings file, as
    `{"nats": {"ack_wait_seconds": 2}}`. To be entered in the main
    thread: all processes are killed with it.
    """

    def __init__(
        self,
        *,
        nats_port: int = 0,
        vcenter_port: int = 0,
        vms: int = 0,
        nats: NatsServer | None = None,
        sections: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.nats = nats or NatsServer(port=nats_port)
        self.vcenter = SimulatedVCenter(vms=vms, port=vcenter_port)
        self.servers: list[Server] = []
        self._sections = sections or {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._begin()
        except (RuntimeError, FileNotFoundError) as error:
            raise StackError(str(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def environment(self) -> dict[str, str]:
        """What shells and clients need: `nats`, `govc` and `vsphere-functions` then find the stack."""
        urls = {server.name: server.url for server in self.servers}
        named = {"HTTP_URL": urls.get("router"), "HEALTH_URL": urls.get("worker")}
        return {
            "NATS_URL": self.nats.url,
            **self.vcenter.govc_environment,
            "GOVC_DATACENTER": "DC0",  # there are two, and a name alone would not do
            FILE: str(self.config),
            **{name: url for name, url in named.items() if url},
        }

    def start_worker(self) -> Server:
        """Start one more worker, ready."""
        port = _free_port()
        return self._start("worker", ["worker"], port, {f"{PREFIX}WORKER__HEALTH_PORT": str(port)})

    def start_router(self) -> Server:
        """Start the HTTP router, ready."""
        port = _free_port()
        return self._start("router", ["serve", "--host", "127.0.0.1", "--port", str(port)], port, {})

    def who_ended(self) -> str:
        """Wait until a process of the stack ends by itself; its name."""
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        names = {server.process.pid: server.name for server in self.servers}
        names |= {self.vcenter.pid: "vCenter", self.nats.pid or 0: "NATS server"}
        return names.get(ended.si_pid if ended else 0, "a process of the stack")

    def _begin(self) -> None:
        with self._cleanup:
            self.home = Path(
                self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="vsphere-functions-"))
            )
            self._cleanup.enter_context(self.nats)
            self._cleanup.enter_context(self.vcenter)
            self.config = self._write_settings()
            setup(load(self.config, environ={}))
            self._cleanup = self._cleanup.pop_all()

    def _start(self, name: str, command: list[str], port: int, extra: Mapping[str, str]) -> Server:
        log = self.home / f"{name}-{len(self.servers)}.log"
        # Settings of the user's own must not lead a worker of the stack to a real vCenter.
        environ = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        with log.open("w") as file:
            process = children.start(
                [sys.executable, "-m", "vsphere_functions.cli", *command],
                env={**environ, FILE: str(self.config), **extra},
                stdout=file,
                stderr=file,
            )
        server = Server(name, f"http://127.0.0.1:{port}", log, process)
        self._cleanup.callback(server.stop)
        server.await_ready()
        self.servers.append(server)
        return server

    def _write_settings(self) -> Path:
        """Write the settings file, with the credentials as a mounted secret would hold them."""
        secret = self.home / "secrets"
        secret.mkdir(mode=0o700)
        (secret / "username").write_text(self.vcenter.username)
        (secret / "password").write_text(self.vcenter.password)
        sections: dict[str, dict[str, Any]] = {
            "nats": {"url": self.nats.url},
            "vcenters.default": {
                "url": self.vcenter.url,
                "secret": "simulator",
                "ca_file": str(self.vcenter.ca_file),
            },
            "secrets.simulator": {"directory": "secrets"},
            "stores.default": {
                "vcenter": "default",
                "datacenter": "DC0",
                "path": "[we ird (1)] vols",
                "installation": str(uuid.uuid4()),
            },
            "worker": {"health_host": "127.0.0.1"},
        }
        for name, values in self._sections.items():
            sections[name] = sections.get(name, {}) | dict(values)
        file = self.home / "settings.toml"
        file.write_text("\n".join(_toml(name, values) for name, values in sections.items()))
        return file


@contextmanager
def interruptible() -> Iterator[None]:
    """Take SIGTERM for ^C, and only the first of them: what follows would disturb the stopping."""

    def interrupt(*_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _toml(name: str, values: Mapping[str, Any]) -> str:
    # JSON's strings, numbers, booleans and lists are TOML's.
    rows = (f"{key} = {json.dumps(value)}\n" for key, value in values.items())
    return f"[{name}]\n{''.join(rows)}"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own server's http URL
            return int(response.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
