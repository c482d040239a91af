"""A worker of the real functions that is struck where its schedule says, and that can be broken on purpose.

Environment: MISHAPS, a JSON file {request token: [point, action, nth]}; STRUCK, a folder with a file for each mishap
that has happened, so that each happens once in a run; CHANGES, a file that tells of each change of the vCenter which
try makes it, by what it holds, and of which things; BREAK, the name of a mechanism to do without.

Points: `change`, before a change of the vCenter is even checked by the fence; `changed`, when the call has been
answered; `clone`, between the fence and the clone; `stored`, when the result is stored and not yet published;
`published`, when it is published and not yet acknowledged.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from chaos.breaks import BREAKS
from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.leases import Lease
from vsphere_functions.runtime.settings_load import load
from vsphere_functions.vsphere.session import Session
from vsphere_functions.vsphere.vcenter import VCenter


class Mishaps:
    """Strikes this process when a request of the schedule comes to its point."""

    def __init__(self, planned: dict[str, tuple[str, str, int]], struck: Path) -> None:
        self._planned = planned
        self._struck = struck
        self._times: Counter[tuple[str, str]] = Counter()

    def at(self, point: str, token: str | None = None) -> None:
        """Come to a point of the request at hand."""
        token = token or str(telemetry._NAMES.get().get("request"))
        planned = self._planned.get(token)
        if planned is None or planned[0] != point:
            return
        self._times[token, point] += 1
        if self._times[token, point] != planned[2] or not self._first(token, planned[1]):
            return
        if planned[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGSTOP)
        while not (self._struck / f"{token}.woken").exists():
            time.sleep(0.01)  # a stop reaches the thread that asked for it a little later

    def _first(self, token: str, action: str) -> bool:
        try:
            with (self._struck / f"{token}.{action}").open("x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return False
        return True


def tell_of_changes(file: Path) -> None:
    """Write a line for each change that the fence lets pass, with the time just before it is asked.

    Who is stopped between the fence and the call is inside the call: that is a limit, and no change by turns.
    """
    change = VCenter.change

    def changing(self: VCenter, step: str, ref: Any, method: str, /, **named: Any) -> Any:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)  # as the fence's own, one clock for all processes
        self.fence.check()
        if isinstance(self.fence, Lease):
            line = f"{now}\t{self.fence.holder.decode()}\t{','.join(self.fence._keys)}\t{method}\n"
            with file.open("a") as lines:
                lines.write(line)
        return change(self, step, ref, method, **named)

    VCenter.change = changing  # type: ignore[method-assign, assignment]  # so that it is told


def strike(mishaps: Mishaps) -> None:
    """Put the points into place."""
    change, call, publish = VCenter.change, Session.call, Outbox.result

    def changing(self: VCenter, *arguments: Any, **named: Any) -> Any:
        mishaps.at("change")
        found = change(self, *arguments, **named)
        mishaps.at("changed")
        return found

    def calling(self: Session, ref: Any, method: str, /, **named: Any) -> Any:
        if method == "CloneVM_Task":
            mishaps.at("clone")
        return call(self, ref, method, **named)

    async def publishing(self: Outbox, address: Any, *arguments: Any) -> None:
        mishaps.at("stored", address.token)
        await publish(self, address, *arguments)
        mishaps.at("published", address.token)

    VCenter.change = changing  # type: ignore[method-assign]  # the points themselves
    Session.call = calling  # type: ignore[method-assign]  # likewise
    Outbox.result = publishing  # type: ignore[method-assign, assignment]  # likewise


def main() -> int:
    """Work until told to end."""
    planned = json.loads(Path(os.environ["MISHAPS"]).read_text())
    if broken := os.environ.get("BREAK"):
        BREAKS[broken]()
    tell_of_changes(Path(os.environ["CHANGES"]))
    strike(Mishaps(planned, Path(os.environ["STRUCK"])))
    return worker(load())


if __name__ == "__main__":
    sys.exit(main())
