"""Start servers that do not outlive the process that started them, not even when it is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

# For machines without setpriv: what it does, in Python. 1 is PR_SET_PDEATHSIG, 9 SIGKILL.
SHIM = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """Wrap a command so that the kernel kills it when its parent dies (Linux only)."""
    if sys.platform != "linux":
        return list(command)
    if setpriv := shutil.which("setpriv"):
        return [setpriv, "--pdeathsig", "KILL", "--", *command]
    return [sys.executable, "-c", SHIM, *command]


def start(command: Sequence[str], **popen: Any) -> subprocess.Popen[str]:
    """Start a child that is killed with us.

    From the main thread only: for the kernel the parent is the *thread* that started the child. A ^C in the terminal
    reaches us and not the child, so that what we stop ends in our order.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("a child started by another thread would be killed when that thread ends")
    return subprocess.Popen(  # noqa: S603 - our own command lines
        dying_with_parent(command), stdin=subprocess.DEVNULL, text=True, process_group=0, **popen
    )


def end(process: subprocess.Popen[str], seconds: float = 5) -> None:
    """Ask a child to end, and kill it when it does not."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
