"""The HTTP host as a process of its own, under functions-framework or as the router, and requests for it."""

import json
import os
import random
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from support.machines import SPEC, TAGS
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_events.subjects import Kind, event_type
from vsphere_functions.local.children import end, start
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.settings_load import load

MAIN = Path(__file__).parents[2] / "functions" / "main.py"
START_SECONDS = 30
_SERVE = "from vsphere_functions.hosts.http import serve; from vsphere_functions.runtime.settings_load import load; "
_SERVE += "from vsphere_functions.runtime import telemetry; telemetry.configure(); serve(load(), '127.0.0.1', {port})"


LIMITS = {"attempts": 2, "retry_seconds": 0.1}
WORKER = {"health_host": "127.0.0.1", "health_port": 0, "drain_seconds": 5}


class HttpHost:
    """A running host; `target` None is the router."""

    def __init__(self, process: subprocess.Popen[str], port: int, log: Path) -> None:
        self._process = process
        self._log = log
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100)
        self.url = str(self.client.base_url)

    @property
    def log(self) -> str:
        """What it has written so far."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """The process that signals go to; under functions-framework the master."""
        return self._process.pid

    def send(self, event: CloudEvent, mode: Mode = Mode.BINARY, path: str = "/") -> httpx.Response:
        """Post an event."""
        headers, body = to_http(event, mode)
        return self.client.post(path, headers=headers, content=body)

    def call(self, event: CloudEvent, mode: Mode = Mode.BINARY, path: str = "/") -> CloudEvent:
        """Post an event and read its result, which comes in the same mode."""
        return result_of(self.send(event, mode, path), mode)

    def tell(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for its end and give its exit status."""
        return self._process.wait(START_SECONDS)


@contextmanager
def running(folder: Path, settings: str, target: str | None = None, **environment: str) -> Iterator[HttpHost]:
    """Run a target under functions-framework, or the router, with settings as TOML text.

    With FUNCTION_TARGET among the environment the framework is told everything by that.
    """
    config = folder / "vsphere-functions.toml"
    config.write_text(settings)
    log, port = folder / "http.log", free_port()
    command, own = _command(port, target, environment)
    more = {"VSPHERE_FUNCTIONS_CONFIG": str(config), **environment, **own}
    with log.open("w") as out:
        process = start(command, stdout=out, stderr=out, env={**os.environ, **more})
    host = HttpHost(process, port, log)
    try:
        _await(host)
        yield host
    finally:
        host.client.close()
        end(process, 10)


@contextmanager
def linked(
    folder: Path,
    server: NatsServer,
    vcenter: SimulatedVCenter,
    target: str | None = None,
    more: str = "",
    dies: str = "",
    **nats: Any,
) -> Iterator[tuple[HttpHost, Settings]]:
    """Run a host that keeps its records on the NATS server, and give its settings too.

    `dies` makes it a router that is killed at a dead letter; see support.dying_host.
    """
    section = toml("nats", {"url": server.url, "ack_wait_seconds": 2, **nats})
    text = settings_of(vcenter, more=section + toml("limits", LIMITS) + toml("worker", WORKER) + more)
    folder.mkdir(exist_ok=True)
    with running(folder, text, target, **({"DIES": dies} if dies else {})) as host:
        yield host, load(folder / "vsphere-functions.toml")


def result_of(response: httpx.Response, mode: Mode = Mode.BINARY) -> CloudEvent:
    """Read the result event in a response, and see that it is one in that mode."""
    assert response.status_code == 200, response.text
    received = from_http(response.headers, response.content)
    assert received.mode is mode
    return received.event


def settings_of(vcenter: SimulatedVCenter, port: int | None = None, more: str = "") -> str:
    """Settings for the vCenter, or for the proxy before it at `port`."""
    url = vcenter.url if port is None else f"https://127.0.0.1:{port}/sdk"
    given = {
        "url": url,
        "user": vcenter.username,
        "password": vcenter.password,
        "ca_file": str(vcenter.ca_file),
    }
    return toml("vcenters.default", given) + more


def toml(section: str, values: Mapping[str, Any]) -> str:
    """Write a section; JSON's strings and numbers are TOML's."""
    return "\n".join(
        [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items()), ""]
    )


def request(function: str, name: str = "worker-1", **attributes: Any) -> CloudEvent:
    """A request event; a creation has the whole spec, others the tags."""
    spec = SPEC if function in {"create_machine", "initialize_machine"} else {"tags": TAGS}
    given: dict[str, Any] = {
        "id": uuid.uuid4().hex,
        "source": "/producers/http-test",
        "type": event_type(function, Kind.REQUEST),
        "data": {"machineName": name, "providerSpec": spec},
    }
    return CloudEvent(**(given | attributes))


def until(condition: Any, seconds: float = 50) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _command(
    port: int, target: str | None, environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    script = str(Path(sys.executable).with_name("functions-framework"))
    if "FUNCTION_TARGET" in environment:
        return [script], {"HOST": "127.0.0.1", "PORT": str(port)}
    if "DIES" in environment:
        paths = filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")])
        return [sys.executable, "-m", "support.dying_host", str(port)], {"PYTHONPATH": os.pathsep.join(paths)}
    if target is None:
        return [sys.executable, "-c", _SERVE.format(port=port)], {}
    options = {"source": MAIN, "target": target, "host": "127.0.0.1", "port": port}
    return [script, *(str(word) for name, value in options.items() for word in (f"--{name}", value))], {}


def _await(host: HttpHost) -> None:
    def answers() -> bool:
        try:
            return host.client.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False

    until(answers, START_SECONDS)


def free_port() -> int:
    """A port that nothing listens on, below those that the kernel gives to connections meanwhile."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("", port)):
            return port
