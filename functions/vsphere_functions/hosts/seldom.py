"""Words that come again and again, said seldom."""

import time
from collections.abc import Callable

_FIRST, _LONGEST = 10.0, 640.0  # seconds
_MANY = 100


class Seldom:
    """Lets words through at once, and the same words again after growing pauses: 10 s, 20 s, up to some ten minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, tuple[float, float]] = {}

    def due(self, words: str) -> bool:
        """Say whether these words are to be said now."""
        now = self._clock()
        when, pause = self._next.get(words, (now, _FIRST))
        if now < when:
            return False
        if len(self._next) >= _MANY:
            self._next.clear()
        self._next[words] = now + pause, min(2 * pause, _LONGEST)
        return True

    def anew(self) -> None:
        """Forget what was said: what comes now is news."""
        self._next.clear()
