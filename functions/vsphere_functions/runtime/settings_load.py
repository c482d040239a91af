"""Where settings come from: one TOML file, and the environment over it."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vsphere_functions.runtime import settings_names
from vsphere_functions.runtime.settings import FILE, PREFIX, Settings, SettingsError


def load(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the TOML file (`path`, else VSPHERE_FUNCTIONS_CONFIG, else none) and the environment over it.

    Relative paths inside the file start from its folder. SettingsError when it cannot be used.
    """
    path = path or (Path(environ[FILE]) if environ.get(FILE) else None)
    table = _read(path) if path else {}
    variables = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name != FILE}
    if problems := list(settings_names.wrong(Settings, variables)):
        raise SettingsError("\n".join(problems))
    for name, value in sorted(variables.items()):
        if "__" in name:
            _overlay(table, name, value)
    try:
        return Settings.model_validate(table, context={"base": path and path.resolve().parent})
    except ValidationError as error:
        raise SettingsError("\n".join(_explain(error))) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        where = re.search(r"\(at .*\)", str(error))
        raise SettingsError(f"{path}: not TOML {where[0] if where else ''}".rstrip()) from None


def _overlay(table: dict[str, Any], name: str, value: str) -> None:
    """Put one variable into the table: `VSPHERE_FUNCTIONS_VCENTERS__VC_1__URL` is vcenters.vc-1.url."""
    *way, last = name.removeprefix(PREFIX).lower().split("__")
    for part in way:
        table = table.setdefault(_known(table, part), {})
        if not isinstance(table, dict):
            raise SettingsError(f"{name}: leads through a key that is no section")
    table[_known(table, last)] = value


def _known(table: Mapping[str, Any], part: str) -> str:
    """Find the key that a variable means: an environment knows neither case nor dashes."""
    return next((key for key in table if key.lower().replace("-", "_") == part), part)


def _explain(error: ValidationError) -> Iterator[str]:
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        way = [str(part) for part in one["loc"] if part != "[key]"]
        key = ".".join(way)
        message = one["msg"].removeprefix("Value error, ")
        words = {"missing": "is required"}
        if one["type"] == "extra_forbidden":
            meant = settings_names.key_meant(Settings, *way)
            words["extra_forbidden"] = "unknown key" + (f"; did you mean {meant}?" if meant else "")
        yield ": ".join(filter(None, (key, words.get(one["type"], message))))
