"""A simulated vCenter on a loopback port, and the control endpoint that makes it fail on demand."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import ssl
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from vsphere_functions.local.tools import ensure

if TYPE_CHECKING:
    from collections.abc import Mapping

USERNAME = "administrator@vsphere.local"
PASSWORD = "password-of-the-simulator"  # noqa: S105 - guards nothing: the server is a simulator on loopback
START_SECONDS = 60  # a fleet of 10,000 machines takes half a minute


def ask_json(address: str, method: str, path: str, body: Mapping[str, Any] | list[str] | None = None) -> Any:
    """Ask a server on this machine that speaks JSON; ValueError with what it says when it refuses."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status >= http.client.BAD_REQUEST:
        raise ValueError(f"{method} {path}: {text.strip()}")
    return json.loads(text) if text else None


class Control:
    """The client of the control endpoint, which `infra/local/vcsim/control.go` describes."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def add_fault(  # noqa: PLR0913 - a rule has as many parts, all but two optional
        self,
        method: str,
        fault: str,
        *,
        scope: Literal["call", "task"] = "call",
        object: str = "",  # noqa: A002 - the field's name
        fields: Mapping[str, Any] | None = None,
        message: str = "",
        count: int = 0,
        skip: int = 0,
        delay_ms: int = 0,
    ) -> None:
        """Let calls of a method fail, or the tasks that it starts, without doing their work.

        `method` is the API's name in both scopes (`CloneVM_Task`). `object` is the name or the
        moref value of the object called. `fields` go into the fault's body by the API's names.
        `message` is for calls: the simulator words those of tasks. Of the matching calls the first
        `skip` pass and then `count` fail; 0 is all of them.
        """
        rule = {
            "scope": scope,
            "method": method,
            "object": object,
            "fault": fault,
            "fields": dict(fields or {}),
            "message": message,
            "count": count,
            "skip": skip,
            "delayMs": delay_ms,
        }
        self._ask("POST", "/faults", rule)

    def clear_faults(self) -> None:
        """Remove all rules."""
        self._ask("DELETE", "/faults")

    def delay(self, **milliseconds: int) -> None:
        """Slow tasks (`CloneVm`, `PowerOn`, ...) or calls (`CloneVM_Task`, `Login`); 0 ends it."""
        self._ask("POST", "/delays", milliseconds)

    def deny(self, *privileges: str) -> None:
        """Let the account lack these privileges when it is asked for them; none ends it."""
        self._ask("POST", "/denied", list(privileges))

    def status(self, code: int, count: int = 1) -> None:
        """Answer the next calls, whatever they are, with an HTTP status."""
        self._ask("POST", "/status", {"code": code, "count": count})

    def calls(self) -> Counter[str]:
        """Count the calls by method since the last reset; `.total()` is all of them."""
        return Counter(self._ask("GET", "/calls")["methods"])

    def reset_calls(self) -> None:
        """Count from zero again."""
        self._ask("DELETE", "/calls")

    def sessions(self) -> int:
        """Count the sessions that are logged in."""
        return int(self._ask("GET", "/sessions")["count"])

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | list[str] | None = None) -> Any:
        return ask_json(self._address, method, path, body)


class SimulatedVCenter:
    """A vCenter with the inventory of `infra/local/vcsim/inventory.go` and `vms` more machines.

    It ends when we do: it reads a pipe whose other end only this process has.
    `marks` go into the extraConfig of the `vms`. `host` is the loopback address to listen on.
    """

    url: str
    control: Control
    ca_file: Path
    key_file: Path
    home: Path | None = None
    pid: int

    def __init__(
        self, *, vms: int = 0, marks: Mapping[str, str] | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.username = USERNAME
        self.password = PASSWORD
        self._options = ["-listen", f"{host}:{port}", "-vms", str(vms)]
        self._options += [f"-vms-mark={key}={value}" for key, value in (marks or {}).items()]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def host(self) -> str:
        """The address that it listens on."""
        return str(urlsplit(self.url).hostname)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(urlsplit(self.url).port or 443)

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """A context that trusts this server and no other."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    @property
    def govc_environment(self) -> dict[str, str]:
        """What govc needs to log in and to trust the certificate."""
        return {
            "GOVC_URL": self.url,
            "GOVC_USERNAME": self.username,
            "GOVC_PASSWORD": self.password,
            "GOVC_TLS_CA_CERTS": str(self.ca_file),
            "GOVC_PERSIST_SESSION": "false",  # or it would find the session of another server there
        }

    def govc(self, *arguments: str) -> Any:
        """Run govc on this vCenter; see `govc`."""
        return govc(self.govc_environment, *arguments)

    def start(self) -> Self:
        """Start it and wait until it says where it listens."""
        binary = _built("vcsim")
        self._process = subprocess.Popen(  # noqa: S603 - the binary that we built
            [binary, *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,  # a ^C in the terminal is ours to act on
        )
        try:
            self._read_ready(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Close its standard input, at which it removes its files and ends."""
        if self._process:
            try:
                self._process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """Kill it as a crash would, and remove the files that it then leaves."""
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None
            if self.home:
                shutil.rmtree(self.home, ignore_errors=True)

    def _read_ready(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        line = process.stdout.readline() if readable else ""
        if not line:
            raise RuntimeError("the simulated vCenter did not start")
        ready = json.loads(line)
        self.url, self.pid = ready["url"], ready["pid"]
        self.control = Control(ready["control"])
        self.ca_file, self.key_file, self.home = (Path(ready[name]) for name in ("cert", "key", "home"))


@cache
def _built(name: str) -> Path:
    """Give a tool, looked for once: each look hashes its sources."""
    return ensure(name)[0]


def govc(environment: Mapping[str, str], *arguments: str) -> Any:
    """Run govc and give its output: a value with `-json` among the arguments, else text."""
    binary = _built("govc")
    done = subprocess.run(  # noqa: S603 - the binary that we built
        [binary, *arguments], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"govc {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout) if "-json" in arguments or "-json=true" in arguments else done.stdout
