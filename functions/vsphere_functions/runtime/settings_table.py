"""The settings as a Markdown table, for the generated documentation."""

import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vsphere_functions.runtime.settings import PREFIX, Settings

_HEAD = ("| key | environment | default | meaning |", "|---|---|---|---|")


def settings_table() -> str:
    """Render a row per key: its name in the file, its environment variable, its default, what it means."""
    return "\n".join((*_HEAD, *_rows(Settings, ""))) + "\n"


def _rows(model: type[BaseModel], under: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = f"{under}{name}"
        section, named = _section(field.annotation)
        if section:
            yield from _rows(section, f"{key}.<name>." if named else f"{key}.")
        else:
            yield f"| `{key}` | `{_variable(key)}` | {_default(field)} | {field.description} |"


def _section(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """Find the section a field holds, and whether it holds many under names."""
    named = typing.get_origin(annotation) is dict
    candidates = [annotation, *typing.get_args(annotation)]
    found = next((one for one in candidates if isinstance(one, type) and issubclass(one, BaseModel)), None)
    return found, named


def _variable(key: str) -> str:
    return PREFIX + "__".join("<NAME>" if part == "<name>" else part.upper() for part in key.split("."))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value[0] if isinstance(value, tuple) else value}`"
