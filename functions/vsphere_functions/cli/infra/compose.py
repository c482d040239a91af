"""docker compose: NATS, setup, workers and the router on one host."""

from collections.abc import Sequence

from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import STORES, documents, toml

SECRETS = "/run/secrets"

_ABOUT = """
`docker compose up --build --detach` in this folder. Beside this file have to be settings.toml, with your addresses, and
secrets/vcenter-<name>-username and -password.
The image is built from the checkout two folders above; from elsewhere, set CHECKOUT to the path of a checkout.
NATS is reachable by these containers only, so it has no login; it keeps its streams in the volume `nats`.
"""
_SETTINGS_ABOUT = f"Settings of all containers; put your own addresses in.\n{STORES}"


def files(site: facts.Site) -> dict[str, str]:
    """Give the compose file and its settings."""
    settings = facts.mounted(site.vcenters, {"url": f"nats://nats:{facts.NATS_PORT}"}, SECRETS)
    return {
        "compose/settings.toml": toml(_SETTINGS_ABOUT, settings),
        "compose/compose.yaml": documents(_ABOUT, _project(site.vcenters)),
    }


def _project(labels: Sequence[str]) -> Value:
    after = {"setup": {"condition": "service_completed_successfully"}}
    secrets = [f"vcenter-{label}-{key}" for label in labels for key in ("username", "password")]
    return {
        "name": facts.NAME,
        "services": {
            "nats": _nats(),
            "setup": {
                **_service(labels),
                "command": ["setup"],
                "healthcheck": {"disable": True},
                "depends_on": {"nats": {"condition": "service_healthy"}},
                "networks": ["nats"],
            },
            "worker": {
                **_service(labels),
                "command": ["worker"],
                "depends_on": after,
                "restart": "unless-stopped",
                "deploy": {"replicas": 2},
            },
            "router": {
                **_service(labels),
                "depends_on": after,
                "restart": "unless-stopped",
                # The router asks for no login: other hosts need a proxy that does.
                "ports": [f"127.0.0.1:{facts.HTTP_PORT}:{facts.HTTP_PORT}"],
            },
        },
        "networks": {"nats": {"internal": True}, "vcenter": {}},
        "volumes": {"nats": {}},
        "configs": {"settings": {"file": "./settings.toml"}},
        "secrets": {name: {"file": f"./secrets/{name}"} for name in secrets},
    }


def _service(labels: Sequence[str]) -> Value:
    mounted = [
        {"source": f"vcenter-{label}-{key}", "target": f"{SECRETS}/vcenter-{label}/{key}"}
        for label in labels
        for key in ("username", "password")
    ]
    return {
        "image": facts.image(),
        "build": {"context": "${CHECKOUT:-../..}", "dockerfile": "infra/container/Dockerfile"},
        "environment": {facts.CONFIG_VARIABLE: facts.CONFIG_FILE},
        "configs": [{"source": "settings", "target": facts.CONFIG_FILE}],
        "secrets": mounted,
        "networks": ["nats", "vcenter"],
        "stop_grace_period": f"{facts.LEAVE_SECONDS}s",
        **_HARDENED,
    }


def _nats() -> Value:
    check = f"http://127.0.0.1:{facts.MONITOR_PORT}/healthz?js-enabled-only=true"
    return {
        "image": f"nats:{facts.nats_version()}-alpine",
        "command": ["--jetstream", "--store_dir", "/data", "--http_port", str(facts.MONITOR_PORT)],
        "networks": ["nats"],
        "volumes": ["nats:/data"],
        "restart": "unless-stopped",
        "healthcheck": {
            "test": ["CMD", "wget", "--quiet", "--output-document=-", check],
            "interval": "2s",
            "timeout": "2s",
            "retries": 15,
        },
        **_HARDENED,
    }


_HARDENED: Value = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
