"""Workers of the real functions that are killed at steps, each replaced at once: WORKERS of them, DEATHS a folder.

A request about a machine or volume called `<function>-<number>-<when>` kills its worker at that step of that function,
once; then there is a file of that name in DEATHS. A machine's name has `-` for `_`. `before` is when the step's effect
has happened and nothing is recorded of it; `after`, when it has been recorded. A worker is at one request at a time, so
that none dies of another's.
"""

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from support.stacks import start_python
from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.local import children
from vsphere_functions.local.stack import Stack
from vsphere_functions.runtime.catalogue import CATALOGUE, UNDO
from vsphere_functions.runtime.settings_load import load

_PR_SET_PDEATHSIG = 1
_at_work = threading.Lock()


def mortal(name: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Run the function, and die at the step that the request's machine or volume is called after."""

    def run(request: Any, ctx: Any) -> Any:
        names = (getattr(request, name, None) for name in ("to_id", "id", "machine_name"))
        about = next(filter(None, names), "")
        with _at_work:
            steps, taken = function(request, ctx), 0
            while True:
                try:
                    step = next(steps)
                except StopIteration as end:
                    return end.value
                taken += 1
                _die(about, f"{name}-{taken}-before")
                yield step
                _die(about, f"{name}-{taken}-after")

    return run


def _die(about: str, when: str) -> None:
    death = Path(os.environ["DEATHS"]) / about
    if about.replace("_", "-") == when.replace("_", "-") and not death.exists():
        death.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def mortal_stack(deaths: Path, count: int, **sections: Any) -> Iterator[Stack]:
    """A stack with as many workers."""
    with Stack(sections=sections) as stack:
        workers = start_python(stack, "support.mortal_workers", DEATHS=str(deaths), WORKERS=str(count))
        try:
            yield stack
        finally:
            children.end(workers)


def _born() -> int:
    """Fork one, which costs less than starting one."""
    child = os.fork()
    if child:
        return child
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    mine = {name for name in CATALOGUE if name.endswith("_volume") and name != "get_volume"}
    mine |= {"create_machine", "delete_machine"}
    given = {name: mortal(name, one) if name in mine else one for name, one in CATALOGUE.items()}
    os._exit(worker(load(), given, UNDO))


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    for _ in range(int(os.environ["WORKERS"])):
        _born()
    while True:
        os.wait()
        _born()
