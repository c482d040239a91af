"""An event loop on a thread of its own, on which requests go on whatever becomes of their callers."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Runs from now until `stop`; daemonic, so that it never holds a process back."""

    def __init__(self, name: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin the work over there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work over there; await it from any other loop."""
        return await asyncio.wrap_future(self.submit(work))

    def stop(self) -> None:
        """Cancel what still runs on the loop, and end it."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._stopped.wait())
