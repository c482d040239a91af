"""Whether the vCenters answer: asked in the background, so that a probe of ours never waits for them."""

import re
import threading
from collections.abc import Mapping

from vsphere_events.error import CallError
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.vsphere.session import SERVICE
from vsphere_functions.vsphere.sessions import Sessions


class VCenters:
    """What is known of the vCenters that this process works for, asked `every` so many seconds.

    By daemon threads, which hold up no exit.
    """

    def __init__(self, settings: Settings, sessions: Sessions, every: float) -> None:
        self._sessions = sessions
        self._every = every
        self._problems = dict.fromkeys(settings.own_vcenters, "not asked yet")
        self._stopped = threading.Event()
        self._reports = Reports()

    def problems(self) -> Mapping[str, str]:
        """Name each vCenter that does not answer, and why."""
        return {f"vcenter {label}": problem for label, problem in self._problems.items() if problem}

    def start(self) -> None:
        """Ask all of them, again and again."""
        for label in self._problems:
            threading.Thread(target=self._watch, args=(label,), name=f"vcenter {label}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()

    def _watch(self, label: str) -> None:
        while not self._stopped.is_set():
            problem = ask(self._sessions, label)
            if not self._stopped.is_set():
                self._problems[label] = self._reports.note(label, problem)
            self._stopped.wait(self._every)


class Reports:
    """Tells the log what becomes of vCenters, once per change."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def note(self, label: str, problem: str) -> str:
        """Take what is the matter with a vCenter, nothing when it answers; the same again."""
        kind = re.sub(r"\d+", "", problem)  # counted seconds are no change
        if kind != self._told.get(label, ""):
            if problem:
                telemetry.log().warning("a vCenter cannot be used", vcenter=label, reason=problem)
            else:
                telemetry.log().info("a vCenter answers again", vcenter=label)
        self._told[label] = kind
        return problem


def ask(sessions: Sessions, label: str) -> str:
    """Ask a vCenter the time, over the session that requests use; why it cannot be used, or nothing."""
    try:
        with sessions.work() as lent:
            lent.get(label).call(SERVICE, "CurrentTime", repeatable=True)
    except CallError as error:
        return f"{error.code}: {error.message}"
    return ""
