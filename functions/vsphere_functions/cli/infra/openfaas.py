"""OpenFaaS: a function each, of the one image with of-watchdog in front of it."""

from vsphere_events.subjects import call_subject
from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.pod import Value
from vsphere_functions.cli.infra.text import MADE, comment, documents, listed

WATCHDOG = "0.11.6"
UPSTREAM_PORT = 5000
SECRETS = "/var/openfaas/secrets"

_ABOUT = """
`faas-cli deploy -f stack.yaml` after the image of the Dockerfile beside it was built and pushed.
The connector for NATS hands over what is published on the subjects in `topic`: these lie outside every stream, so
that no worker takes the same event. It passes no headers on: publish structured events.
The gateway's upstream_timeout, and the ingress before it, have to be at least as long as exec_timeout.
"""
_IMAGE_ABOUT = """
The image behind of-watchdog in its HTTP mode; build infra/container/Dockerfile first.
After SIGTERM the watchdog takes calls for healthcheck_interval and then waits for those that run.
OpenFaaS looks for the watchdog's lock file in /tmp, which it lets a function write to.
"""


def files(site: facts.Site) -> dict[str, str]:
    """Give the stack and the image that it runs."""
    return {
        "openfaas/stack.yaml": documents(_ABOUT, _stack(site)),
        "openfaas/Dockerfile": MADE + comment(_IMAGE_ABOUT) + _dockerfile(),
    }


def _dockerfile() -> str:
    environment = {
        "mode": "http",
        "fprocess": f"{facts.HOME}/bin/entrypoint",
        "PORT": UPSTREAM_PORT,
        "upstream_url": f"http://127.0.0.1:{UPSTREAM_PORT}",
        "ready_path": "/readyz",
        "prefix_logs": "false",
        "TMPDIR": "/tmp",  # noqa: S108 - the platform's own place
    }
    lines = " \\\n    ".join(f'{name}="{value}"' for name, value in environment.items())
    return (
        f"ARG IMAGE={facts.image()}\n"
        f"ARG WATCHDOG=ghcr.io/openfaas/of-watchdog:{WATCHDOG}\n"
        "FROM ${WATCHDOG} AS watchdog\n\n"
        "FROM ${IMAGE}\n"
        "COPY --from=watchdog /fwatchdog /usr/bin/fwatchdog\n"
        f"ENV {lines}\n"
        f"EXPOSE {facts.HTTP_PORT}\n"
        "HEALTHCHECK NONE\n"
        'ENTRYPOINT ["/usr/bin/fwatchdog"]\n'
    )


def _stack(site: facts.Site) -> Value:
    return {
        "version": "1.0",
        "provider": {"name": "openfaas", "gateway": "http://127.0.0.1:8080"},
        "functions": {name: _function(target, site) for target, name in facts.functions().items()},
    }


def _function(target: str, site: facts.Site) -> Value:
    labels = site.vcenters
    passwords = {label: f"{facts.secret_of(label)}-password" for label in labels}
    nats = {"nats.nkey_seed_file": f"{facts.NAME}-nats-key", "nats.ca_file": f"{facts.NAME}-nats-ca"}
    settings = {
        facts.environment("nats.url"): site.nats_url,
        facts.environment("nats.inbox_prefix"): facts.inbox_of("worker"),
        **{facts.environment(key): f"{SECRETS}/{secret}" for key, secret in nats.items()},
    }
    for label, secret in passwords.items():
        settings |= {
            facts.environment("vcenters.<name>.url", label): facts.url_of(label),
            facts.environment("vcenters.<name>.user", label): facts.USER,
            facts.environment("vcenters.<name>.password_file", label): f"{SECRETS}/{secret}",
        }
    longer = facts.CALL_SECONDS + 10
    return {
        "image": f"{facts.NAME}-openfaas:{facts.version()}",
        "skip_build": True,
        "readonly_root_filesystem": True,
        "environment": {
            "FUNCTION_TARGET": target,
            "read_timeout": f"{longer}s",
            "write_timeout": f"{longer}s",
            "exec_timeout": f"{facts.CALL_SECONDS}s",
            "healthcheck_interval": "5s",
            "max_inflight": str(facts.HTTP_SLOTS),
            **settings,
        },
        "secrets": [*nats.values(), *passwords.values()],
        "annotations": {"topic": listed(call_subject(label, target) for label in labels)},
        "labels": {"com.openfaas.scale.min": "1", "com.openfaas.scale.max": "4"},
        "requests": {"cpu": "100m", "memory": "192Mi"},
        "limits": {"memory": "512Mi"},
    }
