"""`vsphere-functions worker`."""

import os
import sys

import typer

from vsphere_functions.cli.given import load_settings

TUNABLES = "GLIBC_TUNABLES"
LEAN = (
    "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"
    ":glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072"
)
_AGAIN = "-Xlean-heap"


def worker() -> None:
    """Serve requests from NATS JetStream until SIGTERM or ^C."""
    _begin_with_a_lean_heap()
    from vsphere_functions.hosts.jetstream import worker as run

    raise typer.Exit(run(load_settings(with_nats=True)))


def _begin_with_a_lean_heap() -> None:
    """Let no thread keep a heap or freed memory of its own: dozens of them would, and pin the pages around it.

    The thresholds are those that glibc begins with, and would raise by what is freed: a page of 500 VMs is big.
    glibc reads this when a process begins, so the process begins again; another C library does not mind. What the
    operator has set stays. The mark in the command line is there since a secure process loses the variable.
    """
    if sys.platform == "linux" and TUNABLES not in os.environ and _AGAIN not in sys.orig_argv:
        command = [sys.executable, _AGAIN, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**os.environ, TUNABLES: LEAN})  # noqa: S606 - ourselves, no shell
