"""Names of environment variables: which key one means, and what a wrong one may have meant."""

import re
import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

PREFIX = "VSPHERE_FUNCTIONS_"
FILE = f"{PREFIX}CONFIG"
_FREE = "<name>"
_NAME = _FREE.upper()
# Kubernetes gives every pod variables about the services beside it, and one of these may bear our name.
_SERVICE = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")
_ADDRESS = re.compile(r"(tcp|udp|sctp)://")


def fields(model: type[BaseModel], under: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Give every key below a section, `<name>` where names are free, with what it holds."""
    for name, field in model.model_fields.items():
        section, named = _section(field.annotation)
        if section:
            yield from fields(section, f"{under}{name}.{_FREE}." if named else f"{under}{name}.")
        else:
            yield f"{under}{name}", field


def variable(key: str) -> str:
    """Name the environment variable of a key."""
    return PREFIX + key.upper().replace(".", "__")


def wrong(model: type[BaseModel], environ: Mapping[str, str]) -> Iterator[str]:
    """Name each variable that begins like ours and means no key, and the one that it may have meant."""
    known = [variable(key) for key, _ in fields(model)]
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX) and not _of_a_service(name, value) and not _means(known, name, "__"):
            meant = _means(known, name, "_+") or _near(known, name)
            yield f"{name}: there is no such setting" + (f"; did you mean {meant}?" if meant else "")


def key_meant(model: type[BaseModel], *key: str) -> str | None:
    """Find the key that an unknown one of a file may have meant, in the same section."""
    *way, last = key
    ways = [one.split(".") for one, _ in fields(model)]
    beside = [
        one[len(way)]
        for one in ways
        if len(one) > len(way) and all(part in {here, _FREE} for part, here in zip(one, way, strict=False))
    ]
    near = get_close_matches(last, beside, 1, 0.75)
    return ".".join((*way, near[0])) if near else None


def _of_a_service(name: str, value: str) -> bool:
    return bool(_SERVICE.fullmatch(name.removeprefix(PREFIX)) or _ADDRESS.match(value))


def _means(known: list[str], name: str, between: str) -> str | None:
    """Find the variable that this one is, with `between` its parts; a free name stays as it is given."""
    for one in known:
        way = one.replace("__", between).replace(_NAME, "(.+?)")
        if found := re.fullmatch(way, name, re.IGNORECASE):
            return one.replace(_NAME, found[1]) if _NAME in one else one
    return None


def _near(known: list[str], name: str) -> str | None:
    return next(
        iter(get_close_matches(name, [FILE, *(one for one in known if _NAME not in one)], 1, 0.85)), None
    )


def _section(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Find the section a field holds, and whether it holds many under names."""
    named = typing.get_origin(annotation) is dict
    candidates = [annotation, *typing.get_args(annotation)]
    found = next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)
    return found, named
