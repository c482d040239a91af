"""An orderly end in a server that is not ours.

functions-framework's server knows no hook for it: atexit is not run in its worker, which ends by raising the signal
it was sent, and its app has no lifespan of ours. So the signal itself is taken first and handed on afterwards.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGINT)
"""What servers end at; gunicorn's SIGQUIT, its way to pass ^C on, would be heard by nobody for 30 s."""


def before_exit(close: Callable[[], Awaitable[object]]) -> None:
    """Run `close` on this event loop at the first signal to end, then let the server have it.

    The same signal again does not wait; another one is the rest of one ^C, which reaches a worker from its terminal
    and from its master. Nothing is done outside the main thread, where signals do not arrive.
    """
    if threading.current_thread() is threading.main_thread():
        _Exit(close, asyncio.get_running_loop())


class _Exit:
    def __init__(self, close: Callable[[], Awaitable[object]], loop: asyncio.AbstractEventLoop) -> None:
        self._close = close
        self._loop = loop
        self._closing: dict[int, asyncio.Task[None] | None] = {}
        self._servers: dict[int, Any] = {
            number: signal.signal(number, self._noticed) for number in (*ENDING, signal.SIGQUIT)
        }

    def _noticed(self, number: int, _frame: FrameType | None) -> None:
        self._loop.call_soon_threadsafe(self._begin, number)

    def _begin(self, number: int) -> None:
        if number in self._closing:
            self._hand_on(number)
        else:
            self._closing[number] = None if self._closing else asyncio.create_task(self._end(number))

    async def _end(self, number: int) -> None:
        try:
            await self._close()
        finally:
            self._hand_on(number)

    def _hand_on(self, number: int) -> None:
        for each, handler in self._servers.items():
            signal.signal(each, handler)
        signal.raise_signal(number if number in ENDING else signal.SIGTERM)
