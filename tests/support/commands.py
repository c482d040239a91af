"""The command line as a shell runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vsphere_functions.runtime.settings import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BASE = {
    key: value for key, value in os.environ.items() if not key.startswith((PREFIX, "NATS_", "GOVC_", "HTTP_"))
}


def command(*arguments: str) -> list[str]:
    """The command line of `vsphere-functions`, by this interpreter."""
    return [sys.executable, "-m", "vsphere_functions.cli", *arguments]


def run(
    *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "", timeout: float = 100
) -> subprocess.CompletedProcess[str]:
    """Run `vsphere-functions` to its end, without a terminal."""
    return subprocess.run(
        command(*arguments),
        env={**BASE, **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


@contextmanager
def up(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """`vsphere-functions up`, ready, and the environment that it wrote; stopped at the end if it still runs."""
    file, log = folder / "env", folder / "up.log"
    with (
        log.open("w") as out,
        subprocess.Popen(
            command("up", "--env-file", str(file), *options), env=BASE, stdout=out, stderr=out, text=True
        ) as process,
    ):
        try:
            deadline = time.monotonic() + 100
            while not file.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
            yield process, environment(file)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(100)


def environment(file: Path) -> dict[str, str]:
    """What a shell has after `set -a; . file`."""
    script = 'set -a; . "$1"; exec "$2" -c \'import json, os; print(json.dumps(dict(os.environ)))\''
    said = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(file), sys.executable],
        env=BASE,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    given: dict[str, str] = json.loads(said)
    return {key: value for key, value in given.items() if BASE.get(key) != value}


def children_of(pid: int) -> set[int]:
    """All processes below one, however deep."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    below, found = {pid}, set[int]()
    while below:
        below = {child for child, parent in parents.items() if parent in below}
        found |= below
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
