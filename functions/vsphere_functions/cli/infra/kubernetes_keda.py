"""KEDA: as many workers as requests wait for, from the lag of each consumer."""

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.cli.infra import facts, pod
from vsphere_functions.cli.infra.kubernetes import WORKER, kustomization
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import documents, plain
from vsphere_functions.hosts.nats_names import REQUESTS, consumer_name

_FEWEST, _MOST = 1, 6

_ABOUT = """
Lag counts what waits and what is worked on, so a worker is not taken away from work in hand. One worker takes
as many requests of a consumer at once as worker.slots says: that is the threshold. Creates wait for the caps of
limits.creates_per_…, which more workers do not raise; maxReplicaCount keeps that within bounds.
The consumers have to be there (kubernetes/setup), or the scaler reports an error and the fallback holds.
The account is that of infra/nats; a server without accounts has $G. The monitoring port of NATS has no login: let
only KEDA reach it.
"""


def files(site: facts.Site) -> dict[str, str]:
    """Give the files of the overlay."""
    folder = "kubernetes/overlays/keda"
    patch = plain([{"op": "remove", "path": "/spec/replicas"}])
    patches = [{"target": {"kind": "Deployment", "name": WORKER}, "patch": patch}]
    parts = kustomization(["../../base", "scaledobject.yaml"], patches=patches)
    return {
        f"{folder}/kustomization.yaml": documents("The base, the number of workers left to KEDA.", parts),
        f"{folder}/scaledobject.yaml": documents(_ABOUT, _scaled_object(site)),
    }


def _scaled_object(site: facts.Site) -> Value:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": pod.metadata(WORKER, "worker"),
        "spec": {
            "scaleTargetRef": {"name": WORKER},
            "pollingInterval": 15,
            "cooldownPeriod": 300,
            "minReplicaCount": _FEWEST,
            "maxReplicaCount": _MOST,
            "fallback": {"failureThreshold": 3, "replicas": 2},
            "triggers": [
                _trigger(site, label, function) for label in site.vcenters for function in FUNCTIONS
            ],
        },
    }


def _trigger(site: facts.Site, label: str, function: str) -> Value:
    return {
        "type": "nats-jetstream",
        "name": f"{label}-{facts.dns_name(function)}",
        "metadata": {
            "natsServerMonitoringEndpoint": f"{site.nats}:{facts.MONITOR_PORT}",
            "account": site.account,
            "stream": REQUESTS,
            "consumer": consumer_name(label, function),
            "lagThreshold": str(facts.SLOTS),
        },
    }
