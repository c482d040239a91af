"""`vsphere-functions worker`."""

import typer

from vsphere_functions.cli.given import load_settings


def worker() -> None:
    """Serve requests from NATS JetStream until SIGTERM or ^C."""
    from vsphere_functions.hosts.jetstream import worker as run

    raise typer.Exit(run(load_settings(with_nats=True)))
