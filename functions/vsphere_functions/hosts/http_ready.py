"""Whether the vCenters answer, for probes that must not wait."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, Future

from vsphere_events.error import CallError
from vsphere_functions.vsphere.session import SERVICE
from vsphere_functions.vsphere.sessions import Sessions

_PATIENCE = 2.0  # seconds; a probe asks again


class VCenterChecks:
    """Asks each vCenter the time, over the session that requests use; one question at a time, however many probes."""

    def __init__(self, sessions: Sessions, labels: Sequence[str], pool: Executor) -> None:
        self._sessions = sessions
        self._labels = labels
        self._pool = pool
        self._asked: dict[str, Future[str | None]] = {}

    @property
    def waiting(self) -> bool:
        """Whether a question is still without an answer."""
        return not all(asked.done() for asked in self._asked.values())

    async def problems(self) -> dict[str, str]:
        """Name each vCenter that cannot be used, and why."""
        asked = {label: asyncio.wrap_future(self._ask(label)) for label in self._labels}
        if asked:
            await asyncio.wait(asked.values(), timeout=_PATIENCE)
        said = {
            label: future.result() if future.done() else "no answer in time"
            for label, future in asked.items()
        }
        return {f"vcenter {label}": reason for label, reason in said.items() if reason}

    def _ask(self, label: str) -> Future[str | None]:
        if label not in self._asked or self._asked[label].done():
            self._asked[label] = self._pool.submit(self._reason, label)
        return self._asked[label]

    def _reason(self, label: str) -> str | None:
        try:
            self._sessions.get(label).call(SERVICE, "CurrentTime", repeatable=True)
        except CallError as error:
            return str(error.code)
        return None
