"""The settings of a process: sections, their keys and what these mean."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    model_validator,
)

from vsphere_events.subjects import is_vcenter
from vsphere_functions.runtime import settings_names
from vsphere_functions.vsphere.files import DatastorePath

PREFIX = settings_names.PREFIX
FILE = settings_names.FILE


class SettingsError(Exception):
    """Settings that cannot be used; the message names each key, never a value."""


def _beside_the_file(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    return Path(base) / path if base else path


def _listed(value: object) -> object:
    """Split a list that comes from the environment at its commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _label(text: str) -> str:
    if not is_vcenter(text):
        raise ValueError("a vCenter's name is at most 63 lower-case letters, digits and dashes")
    return text


def _folder(text: str) -> str:
    DatastorePath.parse(text)
    return text


def _https(url: str) -> str:
    try:
        parts, _ = urlsplit(url), host_of(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"https", "http"} or parts.username or parts.password:
        raise ValueError("should be a URL such as https://vc.example/sdk, without user or password")
    return url


File = Annotated[Path, AfterValidator(_beside_the_file)]
Label = Annotated[str, AfterValidator(_label)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Seconds = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65535)]


class Section(BaseModel):
    """A table of the settings; unknown keys are refused, values are never shown."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Nats(Section):
    """Where NATS is, and how long a request may go without a sign of life."""

    url: Names = Field(
        ("nats://127.0.0.1:4222",),
        description="server addresses, separated by commas; without any key of this section there is no NATS",
    )
    creds: File | None = Field(None, description="credentials file (JWT and seed)")
    nkey_seed_file: File | None = Field(None, description="file with an nkey seed")
    user: str | None = Field(None, description="user, with `password`")
    password: SecretStr | None = Field(None, description="password of `user`")
    ca_file: File | None = Field(None, description="certificate authority of the servers")
    inbox_prefix: str = Field("_INBOX", description="prefix of the inboxes, where accounts restrict it")
    replicas: Literal[1, 3, 5] = Field(1, description="copies that `setup` asks for of streams and buckets")
    ack_wait_seconds: Seconds = Field(30, description="silence after which a request is delivered again")
    heartbeat_seconds: Seconds | None = Field(
        None, description="sign of life while working; a third of ack_wait_seconds"
    )
    lease_seconds: Seconds | None = Field(
        None, description="how long a machine stays with a worker that is gone; ack_wait_seconds"
    )

    @property
    def heartbeat(self) -> float:
        """Seconds between two signs of life."""
        return self.heartbeat_seconds or self.ack_wait_seconds / 3

    @property
    def lease(self) -> float:
        """Seconds for which a lease lasts unless it is renewed."""
        return self.lease_seconds or self.ack_wait_seconds


class VCenter(Section):
    """A vCenter: its address, who logs in, and how its certificate is known."""

    url: Annotated[str, AfterValidator(_https)] = Field(description="https://<host>/sdk")
    user: str | None = Field(None, description="user, with `password` or `password_file`")
    password: SecretStr | None = Field(None, description="password of `user`")
    password_file: File | None = Field(
        None, description="file that holds the password, read for each request"
    )
    secret: str | None = Field(None, description="name of a [secrets.<name>] section, in place of the three")
    ca_file: File | None = Field(None, description="certificate authority of the vCenter")
    thumbprint: str | None = Field(None, description="SHA-256 thumbprint of its certificate")
    insecure: bool = Field(False, description="take any certificate; for tests only")  # noqa: FBT003 - its default

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        inline = (self.password is not None) + (self.password_file is not None)
        if (self.secret is not None) == (inline == 1 and self.user is not None) or inline > 1:
            raise ValueError("give either secret, or user and one of password and password_file")
        return self

    @property
    def host(self) -> str:
        """The vCenter itself, whatever labels lead to it: `host:port`, lower case."""
        return host_of(self.url)


class Secret(Section):
    """Credentials: a mounted directory with one file per key, or the values themselves.

    File names in a directory: vsphereHost, vsphereUsername (or username), vspherePassword (or password),
    vsphereInsecureSSL, userData.
    """

    directory: File | None = Field(None, description="directory of a mounted Kubernetes secret")
    host: str | None = Field(None, description="host to log in to; the vCenter's own when absent")
    user: str | None = Field(None, description="user")
    password: SecretStr | None = Field(None, description="password")
    insecure: bool = Field(False, description="take any certificate of `host`")  # noqa: FBT003 - its default
    user_data: SecretStr | None = Field(None, description="bootstrap data for machines")
    vcenters: Names = Field(
        (),
        description="vCenters whose requests may name it; else those that log in with it, or all when none does",
    )


class Store(Section):
    """A volume store: a label for a folder on a datastore."""

    vcenter: Label = Field("default", description="name of a [vcenters.<name>] section")
    datacenter: str = Field(description="datacenter of the datastore")
    path: Annotated[str, AfterValidator(_folder)] = Field(description="`[datastore] folder`")
    installation: Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")] = Field(
        description="UUID of this installation, lower case; never changed afterwards"
    )
    default_kb: Annotated[int, Field(ge=1024, multiple_of=1024)] = Field(
        1048576, description="size in KiB of a volume whose request names none"
    )
    largest_kb: Count | None = Field(None, description="size in KiB of the largest volume")
    total_kb: Count | None = Field(None, description="size in KiB of all volumes together")
    volumes: Count | None = Field(None, description="number of volumes")


class Limits(Section):
    """How much is done at once, how often it is tried and for how long."""

    creates_per_vcenter: Count = Field(16, description="creates in flight at once on one vCenter")
    creates_per_template: Count = Field(5, description="creates in flight at once of one template")
    creates_per_datastore: Count = Field(
        8, description="creates in flight at once to one datastore or datastore cluster"
    )
    attempts: Count = Field(5, description="tries of a request that changes something")
    budget_seconds: Seconds = Field(540, description="work of one try")
    retry_seconds: Seconds = Field(
        2, description="first pause after a passing failure; each next is four times it"
    )
    exhausted_seconds: Seconds = Field(60, description="first pause after ResourceExhausted; doubles")
    busy_seconds: Seconds = Field(3600, description="longest wait for a machine that another request holds")
    inline_hosts: Names = Field(
        (), description="vCenter hosts that requests may name with credentials of their own"
    )


class Worker(Section):
    """The JetStream worker."""

    slots: Count = Field(8, description="requests that run at once, of each function and vCenter")
    vcenters: Names = Field((), description="names of the vCenters it works for; all when empty")
    health_host: str = Field("0.0.0.0", description="address of /healthz and /readyz")  # noqa: S104 - probes come from outside
    health_port: Port = Field(8081, description="port of /healthz and /readyz; 0 takes a free one")
    drain_seconds: Seconds = Field(20, description="time to finish or to check in after SIGTERM")


class Http(Section):
    """The HTTP host; address and port are the router's, functions-framework is told its own."""

    host: str = Field("127.0.0.1", description="address the router listens on")
    port: Port = Field(8080, description="port the router listens on")
    slots: Count = Field(
        16, description="requests that run at once over HTTP; above that 503, so probes answer"
    )
    answer_seconds: Seconds = Field(
        580,
        description="time after which a request that still runs is answered 503 and goes on; "
        "below the platform's limit for a call",
    )
    receive_seconds: Seconds = Field(
        30, description="time for a request's body to arrive, and for its head at the router"
    )
    webhook_origins: Names = Field(
        (),
        description="senders that are given leave when they ask for it by CloudEvents' webhook handshake; "
        "all are refused when empty",
    )


class Settings(Section):
    """All settings of a process."""

    nats: Nats | None = None
    vcenters: dict[Label, VCenter] = Field(default_factory=dict)
    secrets: dict[str, Secret] = Field(default_factory=dict)
    stores: dict[str, Store] = Field(default_factory=dict)
    limits: Limits = Limits()
    worker: Worker = Worker()
    http: Http = Http()

    @model_validator(mode="after")
    def _names_lead_somewhere(self) -> Self:
        missing = [*self._missing_secrets(), *self._missing_vcenters()]
        if missing:
            raise ValueError("; ".join(missing))
        return self

    def _missing_secrets(self) -> Iterator[str]:
        for label, vcenter in self.vcenters.items():
            if vcenter.secret is not None and vcenter.secret not in self.secrets:
                yield f"vcenters.{label}.secret names no section of secrets"

    def _missing_vcenters(self) -> Iterator[str]:
        named: dict[str, tuple[str, ...]] = {
            f"stores.{name}.vcenter": (store.vcenter,) for name, store in self.stores.items()
        }
        named |= {f"secrets.{name}.vcenters": secret.vcenters for name, secret in self.secrets.items()}
        named |= {"worker.vcenters": self.worker.vcenters}
        for key, labels in named.items():
            if not set(labels) <= self.vcenters.keys():
                yield f"{key} names no section of vcenters"

    @property
    def own_vcenters(self) -> tuple[str, ...]:
        """The labels this process works for."""
        return self.worker.vcenters or tuple(self.vcenters)


@lru_cache(maxsize=256)
def host_of(url: str) -> str:
    """Name the server behind a URL or a bare host: `host:port`, lower case; ValueError, which may show it, for none."""
    parts = urlsplit(url if "://" in url else f"https://{url}")
    if not parts.hostname:
        raise ValueError("no host")
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{name}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
