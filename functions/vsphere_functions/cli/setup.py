"""`vsphere-functions setup`."""

import typer

from vsphere_functions.cli.given import fail, load_settings


def setup() -> None:
    """Create or correct the streams, buckets and consumers in NATS; may be repeated."""
    from vsphere_functions.hosts.nats_setup import setup as run
    from vsphere_functions.runtime.settings import SettingsError

    try:
        for name in run(load_settings(with_nats=True)):
            typer.echo(name)
    except SettingsError as error:
        fail(str(error))
