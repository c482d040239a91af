"""`vsphere-functions dlq`: the requests that were given up."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from vsphere_functions.cli.given import USAGE, after_up, clean, fail, load_settings, tell

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from vsphere_events.code import Code
    from vsphere_functions.hosts.dead_letters import Choice, DeadLetters, Row

    Audit = Callable[[Row, Code], None]

T = TypeVar("T")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Names = Annotated[list[str], typer.Argument(metavar="ID…", help="A letter's number, or its request's id.")]
OptionalNames = Annotated[
    list[str] | None, typer.Argument(metavar="[ID…]", help="A letter's number, or its request's id.")
]
Function = Annotated[str | None, typer.Option(help="Only those of this function.")]
VCenter = Annotated[str | None, typer.Option(help="Only those of this vCenter.")]
OlderThan = Annotated[
    str | None, typer.Option(metavar="AGE", help="Only those older than this, as 90s, 30m, 12h or 7d.")
]

dlq = typer.Typer(
    help="Look at requests that were given up, send them again, or remove them.", no_args_is_help=True
)


@dlq.command("list")
def list_letters(
    *,
    function: Function = None,
    vcenter: VCenter = None,
    older_than: OlderThan = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array instead of a table.")] = False,
) -> None:
    """List dead letters, oldest first: what was given up, when and why."""
    rows = _on(_rows, _choice((), function, vcenter, older_than))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    elif rows:
        _print_table(rows)
    else:
        tell("there are no dead letters")


@dlq.command()
def show(names: Names) -> None:
    """Print dead letters as JSON, with the request as it came; secrets, passwords and user data are hidden."""
    for letter in _on(_shown, _choice(names)):
        typer.echo(json.dumps(letter, indent=2))


@dlq.command()
def redrive(names: Names) -> None:
    """Send requests again with new attempts, and remove their letters; exit status 1 when one is refused.

    Each is a line of the audit on stderr.
    """
    if not all(_on(_sent_again, _choice(names))):
        raise typer.Exit(1)


@dlq.command()
def purge(
    names: OptionalNames = None,
    *,
    function: Function = None,
    vcenter: VCenter = None,
    older_than: OlderThan = None,
    everything: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove dead letters for good; asks first. Each is a line of the audit on stderr."""
    if everything == any((names, function, vcenter, older_than)):
        fail("name dead letters, or choose by --function, --vcenter and --older-than, or say --all", USAGE)
    rows = _on(_rows, _choice(names or (), function, vcenter, older_than))
    if rows and not yes:
        letters = "1 dead letter" if len(rows) == 1 else f"{len(rows)} dead letters"
        typer.confirm(f"Remove {letters} for good?", abort=True, err=True)
    typer.echo(f"{_on(_removed, rows)} removed")


async def _rows(letters: DeadLetters, choice: Choice) -> list[Row]:
    return await letters.rows(choice)


async def _shown(letters: DeadLetters, choice: Choice) -> list[Row]:
    return [(await letters.get(row["letter"])).shown() for row in await letters.rows(choice)]


async def _removed(letters: DeadLetters, rows: Sequence[Row]) -> int:
    from vsphere_functions.hosts.dead_letters import AT_ONCE

    audit, some = _auditing("purge"), range(0, len(rows), AT_ONCE)
    return sum([await removed(letters, rows[at : at + AT_ONCE], audit) for at in some])


async def removed(letters: DeadLetters, rows: Sequence[Row], audit: Audit) -> int:
    """Remove what fits into one go, and tell the audit; how many were still there."""
    from vsphere_events.code import Code

    gone: set[int] | None = None
    try:
        gone = await letters.remove([row["letter"] for row in rows])
    finally:
        for row in rows:
            known = Code.UNKNOWN if gone is None else Code.OK if row["letter"] in gone else Code.NOT_FOUND
            audit(row, known)
    return len(gone)


def _auditing(command: str) -> Audit:
    """Give what writes a line of the audit; to be called when NATS has taken the user."""
    from vsphere_functions.hosts.nats_user import who
    from vsphere_functions.runtime import telemetry
    from vsphere_functions.runtime.audit import audit_command

    telemetry.configure()
    return partial(audit_command, f"dlq {command}", who(load_settings(with_nats=True)))


async def _sent_again(letters: DeadLetters, choice: Choice) -> list[bool]:
    audit = _auditing("redrive")
    return [await _redrive(letters, row, audit) for row in await letters.rows(choice)]


async def _redrive(letters: DeadLetters, row: Row, audit: Audit) -> bool:
    """Send one again, and say so at once: of many, those that are done are known when the rest fails."""
    from vsphere_events.code import Code
    from vsphere_events.error import CallError
    from vsphere_functions.hosts.redrive import redrive as run

    what, code = f"letter {row['letter']}, {row['function']}", Code.UNKNOWN
    try:
        generation = await run(letters, await letters.get(row["letter"]))
        code = Code.OK
    except CallError as error:
        code = error.code
        tell(f"{what}: not sent again: {clean(error.message)}")
        return False
    finally:
        audit(row, code)
    typer.echo(f"{what}: sent again, generation {generation}")
    return True


def _on(work: Callable[[DeadLetters, T], Awaitable[Any]], given: T) -> Any:
    """Do something with the dead letters of the settings' NATS, or end with the reason."""
    from vsphere_events.error import CallError
    from vsphere_functions.hosts.dead_letters import with_letters
    from vsphere_functions.runtime.settings import SettingsError

    try:
        return with_letters(load_settings(with_nats=True), lambda letters: work(letters, given))
    except SettingsError as error:
        fail(f"{error}{after_up()}")
    except CallError as error:
        fail(error.message)


def _choice(
    names: Sequence[str],
    function: str | None = None,
    vcenter: str | None = None,
    older_than: str | None = None,
) -> Choice:
    from vsphere_functions.hosts.dead_letters import Choice

    age = _age(older_than) if older_than else timedelta()
    return Choice(tuple(names), function, vcenter, age)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if not found:
        fail("--older-than: should be a number and s, m, h or d, as 7d", USAGE)
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Fold long texts on a terminal; elsewhere each letter keeps to its line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in rows[0]:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(clean("-" if value is None else str(value))) for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)
