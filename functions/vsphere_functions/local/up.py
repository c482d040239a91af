"""Keep the local stack in the foreground, for shells and clients to use."""

from __future__ import annotations

import shlex
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from vsphere_functions.local.stack import Stack, interruptible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def up(*, env_file: Path | None, nats_port: int, vcenter_port: int, vms: int) -> int:
    """Run NATS, a vCenter with `vms` more machines, a worker and the HTTP router until ^C or SIGTERM.

    `env_file` is there while all of it is ready: KEY=value lines for a shell. 1 when a process ends by itself.
    """
    console = Console(highlight=False)
    if env_file:
        env_file.parent.mkdir(parents=True, exist_ok=True)
        env_file.unlink(missing_ok=True)  # an old one would lead to servers that are gone
    try:
        with interruptible(), Stack(nats_port=nats_port, vcenter_port=vcenter_port, vms=vms) as stack:
            stack.start_worker()
            stack.start_router()
            with published(stack.environment, env_file):
                show(console, stack, env_file)
                console.print(f"[red]the {stack.who_ended()} has ended[/red]")
                return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 0


@contextmanager
def published(environment: Mapping[str, str], file: Path | None) -> Iterator[None]:
    """Keep the environment in a file that appears whole, and that a shell can read with `.`."""
    if file is None:
        yield
        return
    text = "".join(f"{key}={shlex.quote(value)}\n" for key, value in environment.items())
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-", delete=False) as aside:
        aside.write(text)
    Path(aside.name).replace(file)
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink()


def show(console: Console, stack: Stack, env_file: Path | None) -> None:
    """Say what runs where."""
    table = Table.grid(padding=(0, 2))
    for key, value in stack.environment.items():
        table.add_row(key, value)
    table.add_row("logs", ", ".join(str(server.log) for server in stack.servers))
    console.print(table, soft_wrap=True)
    if env_file:
        console.print(f"\nin another shell: [bold]set -a; . {shlex.quote(str(env_file))}; set +a[/bold]")
    console.print("ready; ^C stops all of it")
