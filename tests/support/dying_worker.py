"""A worker of the real functions that is killed at a step: DIES_AT=<function>:<number>:<before|after>.

A function `undo_…` is one that takes back what a canceled request has made.
`before` is when the step's effect has happened and nothing is recorded of it; `after`, when it has been recorded.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.runtime.catalogue import CATALOGUE, UNDO
from vsphere_functions.runtime.settings_load import load


def dying(function: Callable[[Any, Any], Any], number: int, when: str) -> Callable[[Any, Any], Any]:
    """Run the function and kill the process at its step of that number, the first being 1."""

    def run(request: Any, ctx: Any) -> Any:
        steps, taken = function(request, ctx), 0
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                return end.value
            taken += 1
            if taken == number and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            yield step
            if taken == number:
                os.kill(os.getpid(), signal.SIGKILL)

    return run


if __name__ == "__main__":
    name, number, when = os.environ["DIES_AT"].split(":")
    given = {**CATALOGUE, **{f"undo_{name}": undo for name, undo in UNDO.items()}}
    given[name] = dying(given[name], int(number), when)
    undos = {name: given.pop(f"undo_{name}") for name in UNDO}
    sys.exit(worker(load(), given, undos))
