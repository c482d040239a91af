"""The settings as a Markdown table, for the generated documentation."""

from collections.abc import Iterator

from pydantic.fields import FieldInfo

from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.settings_names import fields, variable

_HEAD = ("| key | environment | default | meaning |", "|---|---|---|---|")


def settings_table() -> str:
    """Render a row per key: its name in the file, its environment variable, its default, what it means."""
    return "\n".join((*_HEAD, *_rows())) + "\n"


def _rows() -> Iterator[str]:
    for key, field in fields(Settings):
        yield f"| `{key}` | `{variable(key)}` | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value[0] if isinstance(value, tuple) else value}`"
