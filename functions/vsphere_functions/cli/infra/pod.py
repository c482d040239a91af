"""The parts of a pod that Deployments, the setup Job and Knative's Services share."""

from collections.abc import Sequence
from typing import Any

from vsphere_functions.cli.infra import facts

Value = dict[str, Any]

SETTINGS = f"{facts.NAME}-settings"
NATS_SECRET = f"{facts.NAME}-nats"
SETUP_SECRET = f"{facts.NAME}-nats-setup"
NATS_FILES = {"nkey_seed_file": "user.nk", "ca_file": "ca.crt"}
"""What lies in the Secret of a user of NATS, by the settings that name it."""


def labels(component: str) -> dict[str, str]:
    """Give the labels of a component."""
    return {"app.kubernetes.io/name": facts.NAME, "app.kubernetes.io/component": component}


def metadata(name: str, component: str, **more: Any) -> Value:
    """Name an object and label it."""
    return {"name": name, "labels": {**labels(component), **more.pop("labels", {})}, **more}


def container(name: str, arguments: Sequence[str] = (), **more: Any) -> Value:
    """Describe a container of the image, which may write nowhere and gain nothing."""
    given = {"args": list(arguments)} if arguments else {}
    return {
        "name": name,
        "image": facts.image(),
        **given,
        "env": [{"name": facts.CONFIG_VARIABLE, "value": facts.CONFIG_FILE}, *more.pop("env", ())],
        **more,
        "resources": {
            "requests": {"cpu": "100m", "memory": "192Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in _MOUNTS],
    }


def probes(port: str | None = None) -> Value:
    """Ask for life and readiness; a readiness answer takes at most two seconds for vCenters that are slow."""
    where = {"port": port} if port else {}
    return {
        "livenessProbe": {
            "httpGet": {"path": "/healthz", **where},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
            "timeoutSeconds": 3,
        },
        "readinessProbe": {
            "httpGet": {"path": "/readyz", **where},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
        },
    }


def volumes(vcenters: Sequence[str], nats_secret: str = NATS_SECRET) -> list[Value]:
    """Mount the settings, and all secrets as one folder, so that a rotated one arrives without a restart."""
    sources: list[Value] = [
        {
            "secret": {
                "name": nats_secret,
                "items": [{"key": name, "path": f"nats/{name}"} for name in NATS_FILES.values()],
            }
        },
        *(
            {
                "secret": {
                    "name": facts.secret_of(label),
                    "items": [
                        {"key": key, "path": f"vcenter-{label}/{key}"} for key in ("username", "password")
                    ],
                }
            }
            for label in vcenters
        ),
    ]
    return [
        {"name": "settings", "configMap": {"name": SETTINGS}},
        {"name": "secrets", "projected": {"sources": sources, "defaultMode": 0o444}},
    ]


def spec(containers: Sequence[Value], volumes_: Sequence[Value], **more: Any) -> Value:
    """Describe a pod that needs nothing of the cluster's own API."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **more,
        "containers": list(containers),
        "volumes": list(volumes_),
    }


_MOUNTS = (("settings", facts.CONFIG), ("secrets", facts.SECRETS))
