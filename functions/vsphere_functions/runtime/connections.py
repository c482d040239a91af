"""Who logs in where: the settings' credentials, and those that a request brings or names."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import Secrets
from vsphere_functions.runtime.settings import Secret, Settings, VCenter, host_of
from vsphere_functions.vsphere.session import Endpoint
from vsphere_functions.vsphere.sessions import Credentials, Sessions

_FILES = {
    "host": ("vsphereHost",),
    "user": ("vsphereUsername", "username"),
    "password": ("vspherePassword", "password"),
    "insecure": ("vsphereInsecureSSL",),
    "user_data": ("userData",),
}


class _Set(NamedTuple):
    """The values of a secret as they are now."""

    host: str | None
    user: str | None
    password: str | None
    insecure: bool
    user_data: str | None


def sessions_of(settings: Settings) -> Sessions:
    """Make the process's sessions; each login reads the credentials afresh."""
    return Sessions({label: partial(own_credentials, settings, label) for label in settings.vcenters})


def own_credentials(settings: Settings, label: str) -> Credentials:
    """Read who logs in at a vCenter now; Unauthenticated when a file cannot be read or has no user or password."""
    vcenter = settings.vcenters[label]
    found = _own(settings, vcenter)
    if not found.user or not found.password:  # an empty file is one that is being written
        raise CallError(Code.UNAUTHENTICATED, f"the secret of vCenter {label} has no user or no password")
    return Credentials(_endpoint_of(vcenter, found), found.user, found.password)


def credentials_of(
    settings: Settings, label: str, secrets: Secrets | None, secret_ref: str | None
) -> Credentials | None:
    """Choose the credentials of a request: its own, those of the set it names, or None for the vCenter's own.

    InvalidArgument for a host that limits.inline_hosts does not allow and for a set this vCenter may not use.
    """
    vcenter = _vcenter(settings, label)
    if secrets and secrets.vsphere_host and secrets.vsphere_username and secrets.vsphere_password:
        host = _allowed(settings, secrets.vsphere_host.get_secret_value())
        return Credentials(
            Endpoint(url=f"https://{host}/sdk", insecure=secrets.insecure),
            secrets.vsphere_username.get_secret_value(),
            secrets.vsphere_password.get_secret_value(),
        )
    if secret_ref is None:
        return None
    found = _read(_named(settings, label, secret_ref))
    if found.user is None or found.password is None:
        return None
    return Credentials(_endpoint_of(vcenter, found), found.user, found.password)


def user_data_of(
    settings: Settings, label: str, secrets: Secrets | None, secret_ref: str | None
) -> str | None:
    """Return the bootstrap data of a request: inline first, else of the set it names."""
    if secrets and secrets.user_data:
        return secrets.user_data.get_secret_value()
    return _read(_named(settings, label, secret_ref)).user_data if secret_ref else None


def host_for(settings: Settings, label: str, secrets: Secrets | None, secret_ref: str | None) -> str:
    """Name the vCenter that a request works on, `host:port`, whichever label or login leads to it."""
    if secrets and secrets.vsphere_host:
        return _server(secrets.vsphere_host.get_secret_value())
    named = _read(_named(settings, label, secret_ref)).host if secret_ref else None
    return _server(named) if named else _vcenter(settings, label).host


def _vcenter(settings: Settings, label: str) -> VCenter:
    if label not in settings.vcenters:
        raise CallError(Code.INVALID_ARGUMENT, f"no vCenter is configured under the name {label!r}")
    return settings.vcenters[label]


def _allowed(settings: Settings, host: str) -> str:
    if _server(host) not in {_server(one) for one in settings.limits.inline_hosts}:
        raise CallError(
            Code.INVALID_ARGUMENT, "secrets.vsphereHost is none of the hosts that limits.inline_hosts allows"
        )
    return _server(host)


def _server(host: str) -> str:
    try:
        return host_of(host)
    except ValueError:
        raise CallError(
            Code.INVALID_ARGUMENT, "the vsphereHost that is given or named is no host and port"
        ) from None


def _named(settings: Settings, label: str, name: str) -> Secret:
    """Find a set that requests for this vCenter may name; others are as good as not there."""
    secret = settings.secrets.get(name)
    if secret is not None:
        users = {one for one, vcenter in settings.vcenters.items() if vcenter.secret == name}
        allowed = set(secret.vcenters) or users
        if not allowed or label in allowed:
            return secret
    raise CallError(Code.INVALID_ARGUMENT, "secretRef names no set of secrets that this vCenter may use")


def _own(settings: Settings, vcenter: VCenter) -> _Set:
    if vcenter.secret is not None:
        return _read(settings.secrets[vcenter.secret])
    password = vcenter.password.get_secret_value() if vcenter.password else None
    if vcenter.password_file:
        password = _file(vcenter.password_file)
    return _Set(None, vcenter.user, password, insecure=False, user_data=None)


def _endpoint_of(vcenter: VCenter, found: _Set) -> Endpoint:
    if found.host and _server(found.host) != vcenter.host:
        return Endpoint(url=f"https://{_server(found.host)}/sdk", insecure=found.insecure)
    return Endpoint(
        url=vcenter.url, ca_file=vcenter.ca_file, thumbprint=vcenter.thumbprint, insecure=vcenter.insecure
    )


def _read(secret: Secret) -> _Set:
    """Read a set now: the files of its directory, over the values given in the settings."""
    files = {name: text for name, keys in _FILES.items() for text in _texts(secret, keys)}
    return _Set(
        files.get("host", secret.host),
        files.get("user", secret.user),
        files.get("password", secret.password.get_secret_value() if secret.password else None),
        insecure=files.get("insecure", str(secret.insecure)).lower() in {"true", "1"},
        user_data=files.get("user_data", secret.user_data.get_secret_value() if secret.user_data else None),
    )


def _texts(secret: Secret, keys: tuple[str, ...]) -> Iterator[str]:
    if secret.directory is None:
        return
    for key in reversed(keys):  # of two spellings, the later one read wins: the seed's
        path = secret.directory / key
        if path.is_file():
            yield _text(path) if key == "userData" else _file(path)


def _file(path: Path) -> str:
    """Read a one-line file without its line end, which editors add."""
    return _text(path).rstrip("\r\n")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CallError(Code.UNAUTHENTICATED, f"a file with credentials cannot be read: {why}") from None
