"""Keep the local stack in the foreground, for shells and clients to use."""

from __future__ import annotations

import fcntl
import os
import shlex
import socket
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from vsphere_functions.local.stack import Stack, StackError, interruptible
from vsphere_functions.runtime.settings import FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def up(*, env_file: Path | None, nats_port: int, vcenter_port: int, vms: int) -> int:
    """Run NATS, a vCenter with `vms` more machines, a worker and the HTTP router until ^C or SIGTERM.

    `env_file` is there while all of it is ready: KEY=value lines for a shell. 1 when a process ends by itself.
    StackError when a port is taken, or the file is another's.
    """
    console = Console(highlight=False)
    try:
        with interruptible():
            _refuse_taken({"--nats-port": nats_port, "--vcenter-port": vcenter_port})
            if env_file:
                _make_room(console, env_file)
            with Stack(nats_port=nats_port, vcenter_port=vcenter_port, vms=vms) as stack:
                stack.start_worker()
                stack.start_router()
                with published(stack.environment, env_file):
                    show(console, stack, env_file)
                    _mourn(console, stack, stack.who_ended())
                    return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 0


def _mourn(console: Console, stack: Stack, ended: str) -> None:
    """Say who has ended, and show the last lines of its log, which goes with the stack."""
    console.print(f"[red]the {ended} has ended[/red]")
    for server in stack.servers:
        if server.name == ended:
            console.print(server.tail(), markup=False, soft_wrap=True)


@contextmanager
def published(environment: Mapping[str, str], file: Path | None) -> Iterator[None]:
    """Keep the environment in a file that appears whole, and that a shell can read with `.`.

    The file is locked for as long: a lock ends with its process, and so tells an old file from another's.
    """
    if file is None:
        yield
        return
    text = "".join(f"{key}={shlex.quote(value)}\n" for key, value in environment.items())
    with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}-", delete=False) as ours:
        try:
            ours.write(text)
            ours.flush()
            fcntl.flock(ours, fcntl.LOCK_EX)
            remove_old(file)
            _link(ours.name, file)
        finally:
            Path(ours.name).unlink()
        try:
            yield
        finally:
            with suppress(OSError):
                if os.path.samestat(file.stat(), os.fstat(ours.fileno())):
                    file.unlink()


def _link(ours: str, file: Path) -> None:
    try:
        os.link(ours, file)  # unlike a rename it never takes the place of another's
    except FileExistsError:
        raise _taken(file) from None
    except OSError as error:
        raise StackError(f"--env-file {file}: {error.strerror}") from None


def remove_old(file: Path) -> None:
    """Remove the file of an `up` that is gone, which would lead to servers that are gone too.

    StackError when its `up` still runs, or when no `up` has written it.
    """
    try:
        with file.open() as old:
            fcntl.flock(old, fcntl.LOCK_EX | fcntl.LOCK_NB)
            text = old.read()
            if text and f"\n{FILE}=" not in text:
                raise StackError(f"--env-file {file}: there is a file that `up` has not written")
            file.unlink()
    except FileNotFoundError:
        pass
    except BlockingIOError:
        raise _taken(file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StackError(f"--env-file {file}: {getattr(error, 'strerror', error)}") from None


def _taken(file: Path) -> StackError:
    return StackError(f"--env-file {file}: it belongs to another `up` that is running; name another file")


def _make_room(console: Console, file: Path) -> None:
    """See to it that the file can be written, before anything is started."""
    remove_old(file)
    if not file.parent.is_dir():
        try:
            file.parent.mkdir(parents=True)
        except OSError as error:
            raise StackError(f"--env-file {file}: {error.strerror}") from None
        console.print(f"made the folder {file.parent}", markup=False, soft_wrap=True)


def _refuse_taken(ports: Mapping[str, int]) -> None:
    for option, port in ports.items():
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            raise StackError(f"{option} {port}: {error.strerror}; 0 takes a free one") from None


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
