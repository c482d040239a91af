"""Plain Kubernetes: workers, a router for HTTP, and the Job that sets NATS up; kustomize puts them together."""

from collections.abc import Iterator, Sequence

from vsphere_functions.cli.infra import facts, pod
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import documents, toml

WORKER = f"{facts.NAME}-worker"
ROUTER = f"{facts.NAME}-router"
SETUP = f"{facts.NAME}-setup"

_SETTINGS_ABOUT = """
Settings of all processes in a cluster. Put your own addresses in an overlay, or edit a copy of this file.
Each vCenter logs in with the Secret vsphere-functions-vcenter-<name>, NATS with vsphere-functions-nats.
"""
_BASE_ABOUT = """
Workers on NATS and a router for HTTP. Namespace, image and settings belong into an overlay of yours.
"""


def files(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the files of the plain deployment."""
    folder = "kubernetes"
    nats = {"url": facts.NATS_URL, "creds": f"{facts.SECRETS}/{pod.CREDS}"}
    settings = facts.mounted(labels, nats, facts.SECRETS)
    yield f"{folder}/settings/settings.toml", toml(_SETTINGS_ABOUT, settings)
    yield f"{folder}/settings/kustomization.yaml", documents("The settings as a ConfigMap.", _settings())
    yield (
        f"{folder}/setup/kustomization.yaml",
        documents(
            "Applied before the base, and again after a change of vCenters.",
            kustomization(["../settings", "job.yaml"]),
        ),
    )
    yield (
        f"{folder}/setup/job.yaml",
        documents(
            "Makes streams, consumers and buckets; its user in NATS may do what no worker may.", _job(labels)
        ),
    )
    yield (
        f"{folder}/base/kustomization.yaml",
        documents(_BASE_ABOUT, kustomization(["../settings", "worker.yaml", "router.yaml", "network.yaml"])),
    )
    yield (
        f"{folder}/base/worker.yaml",
        documents(
            "Workers share the requests and need no knowledge of each other.",
            _deployment(WORKER, "worker", labels),
            _disruption(WORKER, "worker"),
        ),
    )
    yield (
        f"{folder}/base/router.yaml",
        documents(
            "All functions over HTTP, for producers inside the cluster.",
            _deployment(ROUTER, "router", labels),
            _service(),
            _disruption(ROUTER, "router"),
        ),
    )
    yield (
        f"{folder}/base/network.yaml",
        documents(
            "In: probes, and HTTP to the router from this namespace. Out: names, NATS, vCenter.",
            _network(WORKER, "worker", "health", anyone=True),
            _network(ROUTER, "router", "http", anyone=False),
            _network(SETUP, "setup", None, anyone=False),
        ),
    )


def kustomization(resources: Sequence[str], **more: object) -> Value:
    """Put resources together."""
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return {**head, "resources": list(resources), **more}


def _settings() -> Value:
    generator = {"name": pod.SETTINGS, "files": ["settings.toml"]}
    return kustomization([], configMapGenerator=[generator])


def _deployment(name: str, component: str, vcenters: Sequence[str]) -> Value:
    worker = component == "worker"
    port = ("health", facts.HEALTH_PORT) if worker else ("http", facts.HTTP_PORT)
    serving = pod.container(
        component,
        ["worker"] if worker else [],
        ports=[{"name": port[0], "containerPort": port[1]}],
        **pod.probes(port[0]),
    )
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": pod.labels(component)},
    }
    template = pod.spec(
        [serving],
        pod.volumes(vcenters),
        terminationGracePeriodSeconds=facts.LEAVE_SECONDS,
        topologySpreadConstraints=[spread],
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": pod.metadata(name, component),
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": pod.labels(component)},
            "template": {"metadata": {"labels": pod.labels(component)}, "spec": template},
        },
    }


def _job(vcenters: Sequence[str]) -> Value:
    template = pod.spec(
        [pod.container("setup", ["setup"])],
        pod.volumes(vcenters, pod.SETUP_SECRET),
        restartPolicy="OnFailure",
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod.metadata(SETUP, "setup"),
        "spec": {
            "backoffLimit": 10,
            # A Job cannot be changed: it is gone when the next one comes.
            "ttlSecondsAfterFinished": 600,
            "template": {"metadata": {"labels": pod.labels("setup")}, "spec": template},
        },
    }


def _service() -> Value:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pod.metadata(ROUTER, "router"),
        "spec": {
            "selector": pod.labels("router"),
            "ports": [{"name": "http", "port": 80, "targetPort": "http", "appProtocol": "http"}],
        },
    }


def _disruption(name: str, component: str) -> Value:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod.metadata(name, component),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": pod.labels(component)}},
    }


def _network(name: str, component: str, port: str | None, *, anyone: bool) -> Value:
    out = [
        {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        {"ports": [{"protocol": "TCP", "port": facts.NATS_PORT}]},
    ]
    if component != "setup":
        out.append({"ports": [{"protocol": "TCP", "port": facts.VCENTER_PORT}]})
    callers: Value = {} if anyone else {"from": [{"podSelector": {}}]}
    incoming = [{**callers, "ports": [{"protocol": "TCP", "port": port}]}] if port else []
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": pod.metadata(name, component),
        "spec": {
            "podSelector": {"matchLabels": pod.labels(component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": incoming,
            "egress": out,
        },
    }
