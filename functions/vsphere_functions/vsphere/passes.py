"""One look through a vCenter for all who ask for it at the same time."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Passes(Generic[T]):
    """Lets concurrent callers share one pass.

    A caller takes part in no pass that began before it asked: what it has done itself, it must see.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._next: Future[T] | None = None

    def share(self, look: Callable[[], T]) -> T:
        """Return what the next pass finds; one of those who wait for it makes it."""
        with self._lock:
            mine = self._next = self._next or Future()
        with self._turn:
            if not mine.done():
                with self._lock:
                    self._next = None  # it begins: who asks from now on waits for another
                try:
                    mine.set_result(look())
                except BaseException as error:  # noqa: BLE001 - it is raised for each who waits
                    mine.set_exception(error)
        return mine.result()
