"""Bootstrap data for Ignition, as Flatcar and CoreOS read it."""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vsphere_functions.bootstrap.volumes import FORMATTER, GuestVolume, script, unit_files

_USER_DATA = {
    "coreos64Guest": "/var/lib/coreos-install/user_data",
    None: "/var/lib/flatcar-install/user_data",
}
"""Where the guest's own cloud-init looks for user data, by guestId, as in Gardener."""


def ignition(
    hostname: str,
    keys: Sequence[str],
    user_data: str | None,
    units: Mapping[str, str],
    guest: str | None = None,
    volumes: Sequence[GuestVolume] = (),
) -> str:
    """Return an Ignition config: host name, keys of the user core, the user data as a file, .network files, volumes.

    Version 2.1.0, as in Gardener. User data that is an Ignition config itself is merged into it, and decides
    by its own version whether this one is 2.1.0 or 3.0.0.
    """
    theirs = _config(user_data)
    third = theirs is not None and theirs.startswith("3.")
    files = {"/etc/hostname": hostname}
    files |= {f"/etc/systemd/network/{name}": text for name, text in units.items()}
    if user_data and theirs is None:
        files[_USER_DATA.get(guest, _USER_DATA[None])] = user_data
    if any(not volume.read_only for volume in volumes):
        files[FORMATTER] = script()
    config: dict[str, Any] = {
        "ignition": {"version": "3.0.0" if third else "2.1.0"},
        "storage": {"files": list(_files(files, third=third))},
    }
    if keys:
        config["passwd"] = {"users": [{"name": "core", "sshAuthorizedKeys": list(keys)}]}
    if volumes:
        config["systemd"] = {"units": list(_units(volumes))}
    if user_data and theirs is not None:
        config["ignition"]["config"] = {"merge" if third else "append": [{"source": _url(user_data)}]}
    return json.dumps(config)


def _config(user_data: str | None) -> str | None:
    """Return the version of user data that is an Ignition config."""
    try:
        version = json.loads(user_data or "null")["ignition"]["version"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return version if isinstance(version, str) else None


def _units(volumes: Sequence[GuestVolume]) -> Iterable[dict[str, Any]]:
    enabled = {volume.mount_unit: {"enabled": True} for volume in volumes}
    for name, text in unit_files(volumes).items():
        yield {"name": name, "contents": text, **enabled.get(name, {})}


def _files(texts: Mapping[str, str], *, third: bool) -> Iterable[dict[str, Any]]:
    where = {"overwrite": True} if third else {"filesystem": "root"}
    for path, text in texts.items():
        mode = 0o600 if path in _USER_DATA.values() else 0o644
        yield {**where, "path": path, "mode": mode, "contents": {"source": _url(text)}}


def _url(text: str) -> str:
    return "data:;base64," + b64encode(text.encode()).decode()
