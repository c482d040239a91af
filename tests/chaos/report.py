"""A run as tables."""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from chaos.compare import tally
from chaos.run import Verdict
from chaos.schedule import Schedule
from vsphere_events.code import Code

SHOWN = 40
"""Differences that are printed; the rest is counted."""


def show(console: Console, schedule: Schedule, verdict: Verdict) -> None:
    """Print requests by function and code, what befell them, how long they took, and what differs."""
    console.print(_requests(verdict))
    console.print(_blows(verdict))
    for difference in verdict.differences[:SHOWN]:
        console.print(f"[red]differs[/] {escape(difference)}", soft_wrap=True)
    said = f"{len(verdict.differences)} differences" if verdict.differences else "everything agrees"
    console.print(
        f"seed {schedule.seed}, schedule {schedule.digest}: {said}; {len(verdict.results)} results of "
        f"{len(schedule.requests)}, {verdict.dead} dead letters, {verdict.kills} kills, {verdict.seconds:.0f} s"
    )


def _requests(verdict: Verdict) -> Table:
    counts = tally(verdict.results)
    codes = sorted({code for one in counts.values() for code in one}, key=lambda code: code.number)
    table = Table("function", *(_short(code) for code in codes), "median s", "longest s", title="requests")
    for function, by_code in sorted(counts.items()):
        taken = verdict.durations.get(function) or [0.0]
        cells = (str(by_code[code] or "") for code in codes)
        table.add_row(function, *cells, f"{statistics.median(taken):.2f}", f"{max(taken):.1f}")
    total = (str(sum(one[code] for one in counts.values())) for code in codes)
    table.add_row("all", *total)
    return table


def _blows(verdict: Verdict) -> Table:
    table = Table("what befell them", "times", title="blows")
    for kind, times in sorted(verdict.happened.items()):
        table.add_row(kind, str(times))
    return table


def _short(code: Code) -> str:
    """Break a code's name into lines, so that a dozen of them fit."""
    return "".join(
        f"\n{letter}" if letter.isupper() and at else letter for at, letter in enumerate(str(code))
    )
