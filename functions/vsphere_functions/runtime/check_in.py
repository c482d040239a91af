"""What a try does between two steps of its function: record, report, and see whether it may go on."""

import asyncio
import time

from vsphere_events import results
from vsphere_events.outcome import Progress
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.claims import CancelRequested, Held, Superseded
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.drive import Interrupted
from vsphere_functions.runtime.operations import stepped, stopped
from vsphere_functions.runtime.perform import Desk, Tell, spent
from vsphere_functions.runtime.store import StoreError
from vsphere_functions.steps import Step


class CheckIn:
    """Takes the steps of a try, whose time begins with it; lives on the event loop."""

    def __init__(self, desk: Desk, address: Address, held: Held, tell: Tell) -> None:
        self._desk = desk
        self._address = address
        self._held = held
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self.begin()

    def begin(self) -> None:
        """Give the try all its time, anew for what undoes it."""
        self._deadline = time.monotonic() + self._desk.settings.limits.budget_seconds

    def took(self, step: Step) -> None:
        """Check in after a step; runs in the function's thread.

        Interrupted when the try is over, CallError when the request is to stop or the time is spent.
        """
        asyncio.run_coroutine_threadsafe(self._check_in(step), self._loop).result()

    def report(self, said: Progress, number: int) -> None:
        """Tell whoever listens how far the request has come; `number` counts over all its tries."""
        address = self._address
        self._tell(
            results.progress(
                address.function.name,
                address.event,
                address.label,
                said,
                at=self._desk.clock(),
                number=number,
            )
        )

    async def _check_in(self, step: Step) -> None:
        record = stepped(self._held.record, step.state)
        try:
            await self._held.write(record)
        except Superseded:
            raise Interrupted from None
        except CancelRequested:
            raise stopped(self._held.record) from None
        except StoreError:
            telemetry.log().warning("a step could not be recorded", step=step.phase)
        said = Progress(
            step=step.phase, percent=step.percent, message=step.message, last_known_state=step.state or None
        )
        self.report(said, record.steps)
        if self._desk.stopping.is_set():
            raise Interrupted
        if time.monotonic() > self._deadline:
            raise spent()
