"""Knative Serving: a Service for each function, of the one image."""

from collections.abc import Sequence

from vsphere_functions.cli.infra import facts, pod
from vsphere_functions.cli.infra.kubernetes import kustomization
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import documents

_ABOUT = """
A Service for each function, reachable inside the cluster only: functions ask for no login.
A call may take as long as Knative's default limit allows, its first byte too, since an answer comes at once as a
whole. Work that takes longer goes on after a 503, and the next delivery gets its result.
"""


def files(site: facts.Site) -> dict[str, str]:
    """Give the files of the services."""
    folder = "knative/base"
    parts = ["../../kubernetes/settings", "../../kubernetes/setup", "services.yaml"]
    services = [_service(name, target, site.vcenters) for target, name in facts.functions().items()]
    return {
        f"{folder}/kustomization.yaml": documents(
            "The functions; an overlay adds a broker and the triggers.",
            kustomization(parts, configurations=["references.yaml"]),
        ),
        f"{folder}/references.yaml": documents(
            "Where kustomize finds the name of the ConfigMap in a Service of Knative.", _references()
        ),
        f"{folder}/services.yaml": documents(_ABOUT, *services),
    }


def _references() -> Value:
    place = {
        "path": "spec/template/spec/volumes/configMap/name",
        "group": "serving.knative.dev",
        "kind": "Service",
    }
    return {"nameReference": [{"kind": "ConfigMap", "version": "v1", "fieldSpecs": [place]}]}


def _service(name: str, target: str, vcenters: Sequence[str]) -> Value:
    function = pod.container(
        "function",
        env=[{"name": "FUNCTION_TARGET", "value": target}],
        ports=[{"containerPort": facts.HTTP_PORT}],
        **pod.probes(),
    )
    scale = {"autoscaling.knative.dev/min-scale": "0", "autoscaling.knative.dev/max-scale": "4"}
    template = pod.spec(
        [function],
        pod.volumes(vcenters),
        containerConcurrency=facts.HTTP_SLOTS,
        timeoutSeconds=facts.CALL_SECONDS,
        responseStartTimeoutSeconds=facts.CALL_SECONDS,
    )
    return {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": pod.metadata(
            name, "function", labels={"networking.knative.dev/visibility": "cluster-local"}
        ),
        "spec": {
            "template": {
                "metadata": {"labels": pod.labels("function"), "annotations": scale},
                "spec": template,
            }
        },
    }
