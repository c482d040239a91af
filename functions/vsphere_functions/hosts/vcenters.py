"""Whether the vCenters answer: asked in the background, so that a probe of ours never waits for them."""

import threading
from collections.abc import Mapping

from vsphere_events.error import CallError
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
            self._problems[label] = self._ask(label)
            self._stopped.wait(self._every)

    def _ask(self, label: str) -> str:
        try:
            self._sessions.get(label).call(SERVICE, "CurrentTime", repeatable=True)
        except CallError as error:
            return f"{error.code}: {error.message}"
        return ""
