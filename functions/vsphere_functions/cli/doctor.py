"""`vsphere-functions doctor`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from vsphere_functions.cli.given import load_settings

if TYPE_CHECKING:
    from vsphere_functions.hosts.findings import Finding


def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array instead of lines.")] = False,
) -> None:
    """Check everything that a worker depends on, and say what to do; nothing is changed.

    Settings, NATS, streams, permissions, clocks, each vCenter, its certificate, privileges and stores. Exit status 0
    when all is fine, 1 when something should be seen to before long, 2 when requests would fail.
    """
    from vsphere_functions.hosts.doctor import examine
    from vsphere_functions.hosts.findings import Severity, worst

    found = examine(load_settings())
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in found], indent=2))
    else:
        for one in found:
            typer.echo(_line(one))
    raise typer.Exit(list(Severity).index(worst(found)))


def _line(one: Finding) -> str:
    do = f"\n         -> {one.do}" if one.do else ""
    return f"{one.severity:<8} {one.part}: {one.says}{do}"
