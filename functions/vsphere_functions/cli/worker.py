"""`vsphere-functions worker`."""

import typer

from vsphere_functions.cli.given import USAGE, fail, load_settings


def worker() -> None:
    """Serve requests from NATS JetStream until SIGTERM or ^C."""
    from vsphere_functions.hosts.jetstream import worker as run
    from vsphere_functions.runtime.settings import SettingsError

    try:
        raise typer.Exit(run(load_settings()))
    except SettingsError as error:
        fail(f"settings: {error}", USAGE)
