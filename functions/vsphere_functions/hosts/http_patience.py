"""A protocol for uvicorn that does not wait for ever for the head of a request; uvicorn itself does."""

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol


def impatient(seconds: float) -> type[asyncio.Protocol]:
    """Make the protocol: a connection on which no request begins in that time is closed, whatever drips in."""

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
            super().connection_made(transport)
            self._expect()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._expect()

        def _expect(self) -> None:
            self.loop.call_later(seconds, self._look, self.cycle)

        def _look(self, before: object) -> None:
            if self.cycle is before and not self.transport.is_closing():
                self.transport.close()

    return cast(type[asyncio.Protocol], Impatient)
