"""How the demo shows what it does, and how it stops when a promise is broken."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from vsphere_events.cloud_event import CloudEvent
    from vsphere_events.outcome import Progress

# A bar's way: progress events tell the step, and the percentage of that step where vSphere knows one.
STEPS = {
    "create_machine": ("clone", "record_birth", "show_tags", "power_on", "mark_ready", "ready"),
    "shut_down_machine": ("shut_down", "power_off"),
    "delete_machine": ("power_off", "detach", "destroy"),
}


class DemoError(Exception):
    """What was promised is not so."""


def expect(true: bool, message: str) -> None:  # noqa: FBT001 - a condition and what it means
    """Stop the demo when a promise is broken."""
    if not true:
        raise DemoError(message)


@contextmanager
def shown(
    console: Console, steps: Sequence[str], names: Sequence[str]
) -> Iterator[Callable[[str, Progress], None]]:
    """Show progress events as a bar per machine, or as lines where there is no terminal."""
    if not console.is_terminal:
        yield lambda name, said: console.print(f"{name}  {said.step}: {said.message}", markup=False)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[said]}"),
    )
    with Bars(*columns, console=console) as bars:
        tasks = {name: bars.add_task(name, total=len(steps), said="") for name in names}

        def show(name: str, said: Progress) -> None:
            at = steps.index(said.step) + (said.percent or 0) / 100 if said.step in steps else None
            bars.update(tasks[name], completed=at, said=said.message)

        yield show
        for task in tasks.values():
            bars.update(task, completed=len(steps), said="")


def tell(console: Console, event: CloudEvent) -> None:
    """Print what matters of a result event."""
    console.print(f"{event.subject}  {event.type}", markup=False)
    for key in ("providerID", "nodeName", "lastKnownState", "error"):
        if event.data.get(key):
            console.print(f"  {key}: {event.data[key]}", markup=False)
