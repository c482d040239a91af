"""`vsphere-functions settings`."""

import typer

from vsphere_functions.cli.given import load_settings


def settings() -> None:
    """Check the settings and print them as JSON, secrets masked."""
    typer.echo(load_settings().model_dump_json(indent=2))
