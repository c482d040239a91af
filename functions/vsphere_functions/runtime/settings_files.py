"""Whether the files that settings name are there; they are read when they are needed, and may come later."""

from collections.abc import Iterator
from pathlib import Path

from vsphere_events.error import CallError
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.settings import Settings


def missing(settings: Settings) -> Iterator[str]:
    """Name each key whose file or directory cannot be read, and each vCenter without a user or password."""
    yield from unreadable(settings)
    found = _unreadable(settings)
    sessions = sessions_of(settings)
    for label, vcenter in settings.vcenters.items():
        if any(key.startswith((f"secrets.{vcenter.secret}.", f"vcenters.{label}.")) for key in found):
            continue  # said already
        try:
            sessions.get(label)
        except CallError as error:
            yield f"vcenters.{label}: {error.message}"


def unreadable(settings: Settings) -> Iterator[str]:
    """Name each key whose file or directory cannot be read, and why."""
    yield from (f"{key}: {why}" for key, why in _unreadable(settings).items())


def _unreadable(settings: Settings) -> dict[str, str]:
    return {key: why for key, path in _files(settings) if (why := _why_not(key, path))}


def _files(settings: Settings) -> Iterator[tuple[str, Path]]:
    sections = {
        "nats": settings.nats,
        **{f"vcenters.{label}": vcenter for label, vcenter in settings.vcenters.items()},
        **{f"secrets.{name}": secret for name, secret in settings.secrets.items()},
    }
    for name, section in sections.items():
        for key, value in section or ():
            if isinstance(value, Path):
                yield f"{name}.{key}", value


def _why_not(key: str, path: Path) -> str | None:
    try:
        if key.endswith(".directory"):
            next(path.iterdir(), None)
        else:
            path.open("rb").close()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None
