"""Whether the vCenters answer, for probes that must not wait."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, Future

from vsphere_functions.hosts.vcenters import Reports, ask
from vsphere_functions.vsphere.sessions import Sessions

NONE = "none is configured, so every request is refused"

_PATIENCE = 2.0  # seconds; a probe asks again


class VCenterChecks:
    """Asks each vCenter the time, over the session that requests use; one question at a time, however many probes."""

    def __init__(self, sessions: Sessions, labels: Sequence[str], pool: Executor) -> None:
        self._sessions = sessions
        self._labels = labels
        self._pool = pool
        self._asked: dict[str, Future[str]] = {}
        self._reports = Reports()

    @property
    def waiting(self) -> bool:
        """Whether a question is still without an answer."""
        return not all(asked.done() for asked in self._asked.values())

    def look(self) -> None:
        """Ask all of them without waiting; the log tells of those that cannot be used."""
        for label in self._labels:
            self._ask(label)

    async def problems(self) -> dict[str, str]:
        """Name each vCenter that cannot be used, and why."""
        if not self._labels:
            return {"vcenters": NONE}
        asked = {label: asyncio.wrap_future(self._ask(label)) for label in self._labels}
        await asyncio.wait(asked.values(), timeout=_PATIENCE)
        said = {
            label: future.result() if future.done() else "no answer in time"
            for label, future in asked.items()
        }
        return {f"vcenter {label}": reason for label, reason in said.items() if reason}

    def _ask(self, label: str) -> Future[str]:
        if label not in self._asked or self._asked[label].done():
            self._asked[label] = self._pool.submit(self._reason, label)
        return self._asked[label]

    def _reason(self, label: str) -> str:
        return self._reports.note(label, ask(self._sessions, label))
