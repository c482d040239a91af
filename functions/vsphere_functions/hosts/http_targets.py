"""The functions as functions-framework targets."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import cast

from functions_framework import aio
from starlette.requests import Request
from starlette.responses import Response

from vsphere_functions.hosts.http import handle
from vsphere_functions.hosts.http_exit import before_exit
from vsphere_functions.hosts.http_service import Service
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.settings_load import load

Target = Callable[[Request], Awaitable[Response]]


def target(name: str | None = None) -> Target:
    """Make the target of a function, or with no name the `router`; nothing is opened before its first request."""

    async def serve_function(request: Request) -> Response:
        return await handle(request, name, _service)

    # The framework finds a target by the name in the module and what it is by the name of the function.
    serve_function.__name__ = name or "router"
    return cast(Target, aio.http(serve_function))


@cache
def _service() -> Service:
    """Open what this process serves with; SettingsError again at each request while the settings are of no use."""
    telemetry.configure()
    service = Service(load())
    before_exit(service.close)
    return service
