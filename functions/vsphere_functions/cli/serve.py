"""`vsphere-functions serve`."""

from typing import Annotated

import typer

from vsphere_functions.cli.given import fail, load_settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on, in place of http.host.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port, in place of http.port; 0 takes a free one.")
    ] = None,
) -> None:
    """Serve all functions over HTTP: POST events to /, or to /<function>."""
    from vsphere_functions.hosts.http import serve as run
    from vsphere_functions.runtime import telemetry
    from vsphere_functions.runtime.settings import SettingsError

    given = load_settings()
    telemetry.configure()
    try:
        run(given, host or given.http.host, given.http.port if port is None else port)
    except SettingsError as error:
        fail(str(error))
