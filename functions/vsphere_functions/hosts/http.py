"""Functions over HTTP: probes, one function or all of them by event type, and a server for the latter."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts import http_answers as answers
from vsphere_functions.hosts.health import not_had
from vsphere_functions.hosts.http_exit import ENDING, before_exit
from vsphere_functions.hosts.http_patience import impatient
from vsphere_functions.hosts.http_service import Service
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.dispatch import no_such
from vsphere_functions.runtime.settings import Settings, SettingsError

_READS = ("GET", "HEAD")
_PROBES = ("/healthz", "/readyz")
_ASKING = "WebHook-Request-Origin"
"""The header by which a sender asks for leave to deliver (CloudEvents' HTTP webhooks, 4)."""


async def handle(request: Request, function: str | None, opened: Callable[[], Service]) -> Response:
    """Answer a request to a function, or to the router; `opened` gives the service and may raise SettingsError."""
    path = request.url.path
    allowed = _READS if path in _PROBES else ("POST",)
    asks = request.method == "OPTIONS" and path not in _PROBES and _ASKING in request.headers
    if request.method not in allowed and not asks:
        return answers.wrong_method(allowed)
    if path == "/healthz":
        return answers.alive()
    try:
        service = opened()
    except SettingsError as error:
        telemetry.log().error("the settings cannot be used", reason=str(error))
        return answers.readiness({"settings": "cannot be used; the log says why"})
    if path == "/readyz":
        return await service.ready()
    function = function or path.strip("/") or None
    if function and function not in FUNCTIONS:
        return answers.refusal(400, no_such(function))  # brokers try a 404 again, for hours
    return service.leave(request.headers[_ASKING]) if asks else await service.respond(request, function)


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve all functions, POST `/` by event type and `/<function>`, until SIGTERM or ^C; port 0 takes a free one.

    The line `listening` in the log says the port. SettingsError when the address cannot be had.
    """
    with _listen(host, port) as listening:
        abandoned = asyncio.run(_serve(settings, listening))
    if abandoned:
        # A thread that waits for a vCenter would hold the process; what it works on is left to its lease.
        telemetry.log().warning("ended with work unfinished")
        sys.stderr.flush()
        os._exit(0)


class _Server(uvicorn.Server):
    """A server that leaves signals to us: its own way ends the process by the signal, and not with 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _serve(settings: Settings, listening: socket.socket) -> bool:
    service = Service(settings)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handle(Request(scope, receive), None, lambda: service)
        await response(scope, receive, send)

    protocol = impatient(settings.http.receive_seconds)
    config = uvicorn.Config(application, http=protocol, lifespan="off", log_config=None, access_log=False)
    server = _Server(config)
    for number in ENDING:
        signal.signal(number, server.handle_exit)
    before_exit(service.close)
    host, port = listening.getsockname()[:2]
    telemetry.log().info("listening", host=host, port=port)
    service.look()
    await server.serve(sockets=[listening])
    return service.abandoned


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(not_had("http.", host, port, error)) from None
