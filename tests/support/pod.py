"""A pod by hand: the container of a generated manifest, started by its own command, environment, files and probes."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

from support.http_host import free_port, until
from support.manifests import Manifest, of_kind
from support.nats_files import seed
from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.__main__ import INFRA
from vsphere_functions.local.children import end

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from support.image import Image
    from vsphere_functions.local.nats_server import NatsServer
    from vsphere_functions.local.vcenter import SimulatedVCenter

PATIENCE = 60
KUBELET = {"User-Agent": "kube-probe/1.33", "Accept": "*/*", "Connection": "close"}
QUEUE_PROXY = {**KUBELET, "K-Kubelet-Probe": "queue", "K-Network-Probe": "queue"}
"""Headers of probes: Knative's sidecar asks in the kubelet's place."""


@dataclass(frozen=True)
class Cluster:
    """What is there before a pod: its image, NATS with a user for each, the vCenter, and so ConfigMap and Secrets."""

    image: Image
    folder: Path
    nats: NatsServer
    nats_files: Path
    vcenter: SimulatedVCenter

    def settings(self) -> str:
        """The settings of the manifests, with the addresses of this place."""
        text = (INFRA / "kubernetes" / "settings" / "settings.toml").read_text()
        changes = {
            f'"{facts.Site().nats_url}"': f'"{self.nats.url.replace("nats:", "tls:")}"',
            f'"{facts.url_of("default")}"': f'"{self.vcenter.url}"\nca_file = "{self.vcenter.ca_file}"',
        }
        for theirs, ours in changes.items():
            assert text.count(theirs) == 1, theirs
            text = text.replace(theirs, ours)
        return text

    def secret(self, name: str) -> dict[str, str]:
        """The Secrets that the guide has people make."""
        ca = (self.nats_files / "tls" / "ca.crt").read_text()
        login = {"username": self.vcenter.username, "password": self.vcenter.password}
        return {
            f"{facts.NAME}-nats": {"user.nk": self._key("worker"), "ca.crt": ca},
            f"{facts.NAME}-nats-setup": {"user.nk": self._key("setup"), "ca.crt": ca},
            f"{facts.NAME}-vcenter-default": login,
        }[name]

    def _key(self, user: str) -> str:
        with open(seed(self.nats_files, user), encoding="utf-8") as file:  # noqa: PTH123 - a name it is
            return file.read()


class Pod:
    """A pod; `extra` is what its platform adds to the environment of the manifest."""

    def __init__(self, cluster: Cluster, name: str, spec: Manifest, extra: Mapping[str, str]) -> None:
        (self.container,) = spec["containers"]
        self.spec = spec
        self._cluster = cluster
        self._root = cluster.folder / name
        self._root.mkdir()
        self._mounted: dict[str, str] = {}
        for mount in self.container["volumeMounts"]:
            (volume,) = (one for one in spec["volumes"] if one["name"] == mount["name"])
            self._mount(mount["mountPath"], volume)
        ports = [one["containerPort"] for one in self.container.get("ports", ())]
        self.port = free_port()
        taken = {"PORT": str(self.port), facts.environment("worker.health_port"): str(self.port)}
        given = {one["name"]: self._here(one["value"]) for one in self.container["env"]}
        assert not given.keys() & {*taken, *extra}, "the platform says these"
        self.environment = {**given, **extra, **(taken if ports else {})}
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        assert "command" not in self.container, "the image's entry is what it runs"
        image, arguments = self._cluster.image, self.container.get("args", ())
        return image.start(self._root / "log", *arguments, **self.environment)

    def _mount(self, path: str, volume: Manifest) -> None:
        folder = self._root / path.lstrip("/")
        self._mounted[path] = str(folder)
        if "configMap" in volume:
            files = {"settings.toml": self._cluster.settings()}
        else:
            sources = [one["secret"] for one in volume["projected"]["sources"]]
            files = {
                item["path"]: self._cluster.secret(one["name"])[item["key"]]
                for one in sources
                for item in one["items"]
            }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(self._here(text))

    def _here(self, text: str) -> str:
        for path in (facts.CONFIG, facts.SECRETS):
            text = text.replace(path, str(self._root / path.lstrip("/")))
        return text

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """What it has written so far."""
        return (self._root / "log").read_text()

    def probe(self, kind: str, headers: Mapping[str, str] = KUBELET) -> bool:
        """Ask as the manifest says: `livenessProbe` or `readinessProbe`."""
        asked = self.container[kind]["httpGet"]
        named = {one.get("name"): one["containerPort"] for one in self.container["ports"]}
        assert asked.get("port") in {None, *named}, "a port that the container has"
        try:
            answer = httpx.get(self.url + asked["path"], headers=dict(headers), timeout=PATIENCE)
        except httpx.TransportError:
            return False
        return 200 <= answer.status_code < 400

    def await_ready(self, headers: Mapping[str, str] = KUBELET) -> None:
        """Wait until it may get traffic."""
        until(lambda: self.process.poll() is not None or self.probe("readinessProbe", headers), PATIENCE)
        assert self.process.poll() is None, self.log
        assert self.probe("livenessProbe", headers)

    def leave(self) -> int:
        """Wait for its end after SIGTERM, longer than the kubelet would only where the machine is slow."""
        return self.process.wait(max(PATIENCE, self.spec.get("terminationGracePeriodSeconds", 0)))


@contextmanager
def pod(cluster: Cluster, name: str, kind: str, folder: str, *, of: str = "", **extra: str) -> Iterator[Pod]:
    """The pod of the one object of a kind in a folder, or of the one that is named."""
    (made,) = (one for one in of_kind(kind, folder) if of in {"", one["metadata"]["name"]})
    one = Pod(cluster, name, made["spec"]["template"]["spec"], extra)
    try:
        yield one
    finally:
        end(one.process)


@contextmanager
def revision(cluster: Cluster, name: str, service: str) -> Iterator[Pod]:
    """The pod of a Knative Service, with what Serving adds to its environment."""
    added: dict[str, Any] = {
        "K_SERVICE": service,
        "K_CONFIGURATION": service,
        "K_REVISION": f"{service}-00001",
    }
    with pod(cluster, name, "Service", "knative/base", of=service, **added) as one:
        one.await_ready(QUEUE_PROXY)
        yield one
