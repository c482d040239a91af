"""What commands are given: settings and request data, or a clear end with exit status 2."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from vsphere_functions.runtime.settings import Settings

USAGE = 2
INTERRUPTED = 130


def fail(message: str, status: int = 1) -> NoReturn:
    """End with a line on stderr."""
    tell(message)
    raise typer.Exit(status)


def tell(message: str) -> None:
    """Say something on stderr; stdout is for what was asked for."""
    typer.echo(f"vsphere-functions: {clean(message)}", err=True)


def clean(text: str) -> str:
    """Take out what would move a terminal's cursor or turn its text: producers and guests wrote some of it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def load_settings(*, with_nats: bool = False) -> Settings:
    """Read the settings of this process; `with_nats`: they have to say where NATS is."""
    from vsphere_functions.runtime.settings import SettingsError
    from vsphere_functions.runtime.settings_load import load

    try:
        settings = load()
        if with_nats:
            from vsphere_functions.hosts.nats_connection import nats_of

            nats_of(settings)
    except SettingsError as error:
        for line in str(error).splitlines():
            tell(f"settings: {line}{after_up()}")
        raise typer.Exit(USAGE) from None
    return settings


def after_up() -> str:
    """Say why settings can be gone: the file of an `up` ends with it."""
    from vsphere_functions.runtime.settings import FILE

    gone = FILE in os.environ and not Path(os.environ[FILE]).exists()
    return f" ({FILE} names no file; if it comes from `up`, is that still running?)" if gone else ""


def request_data(text: str) -> dict[str, Any]:
    """Read a request's data from JSON, a file of it, or `-` for stdin; `{"data": …}` is taken apart."""
    text = _text(text)
    if not text.strip():
        fail("--data: is empty; it should be a JSON object, a file with one, or - for stdin", USAGE)
    try:
        found = json.loads(text)
    except ValueError as error:
        fail(f"--data: not JSON: {error}", USAGE)
    if isinstance(found, dict) and found.keys() == {"data"}:
        found = found["data"]
    if not isinstance(found, dict):
        fail("--data: should be a JSON object", USAGE)
    return found


def _text(given: str) -> str:
    if not given.strip() or given.lstrip().startswith(("{", "[")):
        return given
    try:
        return sys.stdin.read() if given == "-" else Path(given).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--data: {error}", USAGE)


def known(function: str) -> str:
    """Refuse a name that is no function of the contract."""
    from vsphere_events.functions import FUNCTIONS

    if function not in FUNCTIONS:
        fail(f"no such function: {function}; there are {', '.join(FUNCTIONS)}", USAGE)
    return function
