"""`vsphere-functions settings`."""

import typer

from vsphere_functions.cli.given import USAGE, load_settings, tell


def settings() -> None:
    """Check the settings and the files that they name, and print them as JSON, secrets masked."""
    from vsphere_functions.runtime.settings_files import missing

    given = load_settings()
    typer.echo(given.model_dump_json(indent=2))
    if lacking := list(missing(given)):
        for line in lacking:
            tell(f"settings: {line}")
        raise typer.Exit(USAGE)
