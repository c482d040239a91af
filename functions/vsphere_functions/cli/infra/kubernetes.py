"""Plain Kubernetes: workers, a router for HTTP, and the Job that sets NATS up; kustomize puts them together."""

from collections.abc import Sequence

from vsphere_functions.cli.infra import facts, pod
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import STORES, documents, toml

WORKER = f"{facts.NAME}-worker"
ROUTER = f"{facts.NAME}-router"
SETUP = f"{facts.NAME}-setup"

_SETTINGS_ABOUT = f"""
Settings of all processes in a cluster. Put your own addresses in an overlay, or edit a copy of this file.
Each vCenter logs in with the Secret vsphere-functions-vcenter-<name>, NATS with vsphere-functions-nats.
{STORES}
"""
_SETUP_ABOUT = """
Makes streams, consumers and buckets; its user in NATS may do what no worker may. Workers are not ready before.
It is there for ten minutes after its end, and made anew by the next apply: a new vCenter gets its consumers so.
"""
_BASE_ABOUT = """
Workers on NATS and a router for HTTP. Namespace, image and settings belong into an overlay of yours.
"""


def files(site: facts.Site) -> dict[str, str]:
    """Give the files of the plain deployment."""
    files_ = {key: f"{facts.SECRETS}/nats/{name}" for key, name in pod.NATS_FILES.items()}
    nats = {"url": site.nats_url, **files_, "inbox_prefix": facts.inbox_of("worker")}
    settings = facts.mounted(site.vcenters, nats, facts.SECRETS)
    parts = ["../settings", "../setup", "worker.yaml", "router.yaml"]
    return {
        "kubernetes/settings/settings.toml": toml(_SETTINGS_ABOUT, settings),
        "kubernetes/settings/kustomization.yaml": documents("The settings as a ConfigMap.", _settings()),
        "kubernetes/setup/kustomization.yaml": documents(
            "Part of what is deployed, whatever runs the functions.", kustomization(["job.yaml"])
        ),
        "kubernetes/setup/job.yaml": documents(
            _SETUP_ABOUT, _job(site.vcenters), _network(SETUP, "setup", {})
        ),
        "kubernetes/base/kustomization.yaml": documents(_BASE_ABOUT, kustomization(parts)),
        "kubernetes/base/worker.yaml": documents(
            "Workers share the requests and need no knowledge of each other.",
            _deployment(WORKER, "worker", site.vcenters),
            _disruption(WORKER, "worker"),
            _network(WORKER, "worker", {"ports": [{"protocol": "TCP", "port": "health"}]}),
        ),
        "kubernetes/base/router.yaml": documents(
            "All functions over HTTP, for producers in this namespace.",
            _deployment(ROUTER, "router", site.vcenters),
            _service(),
            _disruption(ROUTER, "router"),
            _network(
                ROUTER,
                "router",
                {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": "http"}]},
            ),
        ),
    }


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
    own_inbox = {"name": facts.environment("nats.inbox_prefix"), "value": facts.inbox_of("setup")}
    template = pod.spec(
        [pod.container("setup", ["setup"], env=[own_inbox])],
        pod.volumes(vcenters, pod.SETUP_SECRET),
        restartPolicy="OnFailure",
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod.metadata(SETUP, "setup"),
        "spec": {
            "backoffLimit": 10,
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


def _network(name: str, component: str, callers: Value) -> Value:
    """Let in `callers` at most, and out to the names, NATS and, where it is needed, vCenters."""
    out = [
        {"ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]},
        {"ports": [{"protocol": "TCP", "port": facts.NATS_PORT}]},
    ]
    if component != "setup":
        out.append({"ports": [{"protocol": "TCP", "port": facts.VCENTER_PORT}]})
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": pod.metadata(name, component),
        "spec": {
            "podSelector": {"matchLabels": pod.labels(component)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [callers] if callers else [],
            "egress": out,
        },
    }
