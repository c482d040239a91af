"""All that a run has: the cluster, the vCenter, the ways between them, three workers, and their settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from chaos.schedule import PRODUCERS, WORKERS, Schedule
from chaos.toxiproxy import Link, Toxiproxy
from support.cluster import Cluster
from support.http_host import toml
from support.proxy import Proxy
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.children import start
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import FILE, PREFIX, Settings
from vsphere_functions.runtime.settings_load import load

LEASE = 2.0
INSTALLATION = "6f1c0d5e-52a5-4c0e-8d53-0e2b8f6f7f11"
STORE = f"vols/VIC/{INSTALLATION}/volumes"
DELAYS = {"CloneVm": 120, "Destroy": 150, "PowerOff": 60, "ReconfigVm": 30, "DeleteVirtualDisk": 60}
"""Milliseconds that tasks take: what takes no time is never interrupted."""


class Worker:
    """A worker process that is started again and again, over one log."""

    def __init__(self, number: int, log: Path, environment: dict[str, str]) -> None:
        self.number = number
        self.log = log
        self._environment = environment
        self.process: subprocess.Popen[str] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start it; whether it is ready is its own business."""
        self.starts += 1
        with self.log.open("a") as file:
            self.process = start(
                [sys.executable, "-m", "chaos.worker"], env=self._environment, stdout=file, stderr=file
            )

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if self.process and self.process.poll() is None:
            os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it at once."""
        if self.process:
            self.process.kill()
            self.process.wait()

    @property
    def ended(self) -> int | None:
        """Its exit status, once it has ended."""
        return self.process.poll() if self.process else None


class Site:
    """Everything, ready, within a `with`; to be entered in the main thread."""

    def __init__(self, schedule: Schedule, broken: str | None = None) -> None:
        self._schedule = schedule
        self._broken = broken
        self._cleanup = ExitStack()
        self.cluster = Cluster()
        self.vcenter = SimulatedVCenter()
        self.workers: list[Worker] = []

    def __enter__(self) -> Self:
        with self._cleanup:
            self.home = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
            self.struck = self.home / "struck"
            self.struck.mkdir()
            self.changes = self.home / "changes"
            self.changes.touch()
            self._cleanup.enter_context(self.cluster)
            self._cleanup.enter_context(self.vcenter)
            self._open_links()
            for number in range(WORKERS):
                self.workers.append(
                    Worker(number, self.home / f"worker-{number}.log", self._environment(number))
                )
                self._cleanup.callback(self.workers[-1].kill)
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def settings(self) -> Settings:
        """The settings as a process that nothing comes between would have them."""
        return load(self.config, environ={f"{PREFIX}NATS__URL": ",".join(self.cluster.urls)})

    def producer_urls(self, number: int) -> list[str]:
        """Where a producer connects."""
        return [f"nats://127.0.0.1:{link.port}" for link in self.producer_links[number]]

    def set_up(self) -> None:
        """Make the streams, and let tasks take time; the cluster has to be healthy. Not on an event loop."""
        setup(self.settings)
        self.vcenter.control.delay(**DELAYS)

    def start_workers(self) -> None:
        """Start them all."""
        for worker in self.workers:
            worker.start()

    def _open_links(self) -> None:
        toxics = self._cleanup.enter_context(Toxiproxy())
        vcenter = self.vcenter
        self.replies = self._cleanup.enter_context(
            Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file)
        )
        self.vcenter_link = toxics.link("vcenter", self.replies.port)
        self.worker_links = [self._to_nodes(toxics, f"worker-{number}") for number in range(WORKERS)]
        self.producer_links = [self._to_nodes(toxics, f"producer-{number}") for number in range(PRODUCERS)]
        self.config = self._write_settings()

    def _to_nodes(self, toxics: Toxiproxy, name: str) -> list[Link]:
        return [toxics.link(f"{name}-node-{at}", node.port) for at, node in enumerate(self.cluster.nodes)]

    def _write_settings(self) -> Path:
        sections: dict[str, dict[str, Any]] = {
            "nats": {"replicas": 3, "ack_wait_seconds": LEASE},
            "vcenters.default": {
                "url": f"https://127.0.0.1:{self.vcenter_link.port}/sdk",
                "user": self.vcenter.username,
                "password": self.vcenter.password,
                "ca_file": str(self.vcenter.ca_file),
            },
            "stores.default": {
                "vcenter": "default",
                "datacenter": "DC0",
                "path": "[we ird (1)] vols",
                "installation": INSTALLATION,
            },
            "limits": {"retry_seconds": 0.2, "exhausted_seconds": 0.5},
            "worker": {"health_host": "127.0.0.1", "health_port": 0, "slots": 4, "drain_seconds": 5},
        }
        file = self.home / "settings.toml"
        file.write_text("\n".join(toml(name, values) for name, values in sections.items()))
        return file

    def _environment(self, number: int) -> dict[str, str]:
        planned = {
            one.id: [one.mishap.point, one.mishap.action, one.mishap.nth]
            for one in self._schedule.requests
            if one.mishap
        }
        mishaps = self.home / "mishaps.json"
        mishaps.write_text(json.dumps(planned))
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        environ = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
        links = self.worker_links[number]
        return {
            **environ,
            FILE: str(self.config),
            f"{PREFIX}NATS__URL": ",".join(f"nats://127.0.0.1:{link.port}" for link in links),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "MISHAPS": str(mishaps),
            "STRUCK": str(self.struck),
            "CHANGES": str(self.changes),
            **({"BREAK": self._broken} if self._broken else {}),
        }
