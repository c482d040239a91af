"""`/healthz` and `/readyz` on a port of their own: a few lines of HTTP, answered by the event loop itself."""

import asyncio
import errno
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from vsphere_functions.runtime.settings import SettingsError

Problems = Callable[[], Mapping[str, str]]


class Health:
    """Answers 200 to /healthz while the loop runs; to /readyz 200, or 503 with each part that is not ready."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; the port, which is the given one unless that is 0. SettingsError when it cannot be had."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=8192)
        except OSError as error:
            raise SettingsError(not_had("worker.health_", host, port, error)) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._server:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            status, body = self._answer(*head.split(b" ", 2)[:2])
            payload = json.dumps(body).encode() + b"\n"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(payload)}\r\nConnection: close\r\n\r\n".encode()
            )
            writer.write(b"" if head.startswith(b"HEAD ") else payload)
            await writer.drain()
        writer.close()

    def _answer(self, method: bytes, target: bytes) -> tuple[str, dict[str, object]]:
        path = target.partition(b"?")[0]
        if method not in {b"GET", b"HEAD"} or path not in {b"/healthz", b"/readyz"}:
            return "404 Not Found", {"status": "there are /healthz and /readyz"}
        problems = dict(self._problems()) if path == b"/readyz" else {}
        if problems:
            return "503 Service Unavailable", {"status": "not ready", "problems": problems}
        return "200 OK", {"status": "ok"}


def not_had(setting: str, host: str, port: int, error: OSError) -> str:
    """Say that an address cannot be listened on, and which of the settings `…port` and `…host` to look at."""
    number = error.errno or 0
    why = os.strerror(number) if number > 0 else str(error)  # asyncio's own words tell the address once more
    if number in {errno.EADDRINUSE, errno.EACCES}:
        return (
            f"{setting}port: {host}:{port}: {why}; each process needs a port of its own, 0 takes a free one"
        )
    return f"{setting}host: {host}:{port}: {why}"
