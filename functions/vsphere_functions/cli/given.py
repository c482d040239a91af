"""What commands are given: settings and request data, or a clear end with exit status 2."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from vsphere_functions.runtime.settings import Settings

USAGE = 2


def fail(message: str, status: int = 1) -> NoReturn:
    """End with a line on stderr."""
    typer.echo(f"vsphere-functions: {message}", err=True)
    raise typer.Exit(status)


def load_settings() -> Settings:
    """Read the settings of this process."""
    from vsphere_functions.runtime.settings import SettingsError, load

    try:
        return load()
    except SettingsError as error:
        fail(f"settings: {error}", USAGE)


def request_data(text: str) -> dict[str, Any]:
    """Read a request's data from JSON, a file of it, or `-` for stdin; `{"data": …}` is taken apart."""
    if not text.lstrip().startswith("{"):
        try:
            text = sys.stdin.read() if text == "-" else Path(text).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            fail(f"--data: {error}", USAGE)
    try:
        found = json.loads(text)
    except ValueError as error:
        fail(f"--data: not JSON: {error}", USAGE)
    if isinstance(found, dict) and found.keys() == {"data"}:
        found = found["data"]
    if not isinstance(found, dict):
        fail("--data: should be a JSON object", USAGE)
    return found


def known(function: str) -> str:
    """Refuse a name that is no function of the contract."""
    from vsphere_events.functions import FUNCTIONS

    if function not in FUNCTIONS:
        fail(f"no such function: {function}; there are {', '.join(FUNCTIONS)}", USAGE)
    return function
