"""`vsphere-functions nats-config`."""

from pathlib import Path
from typing import Annotated

import typer

from vsphere_functions.cli.given import USAGE, fail


def nats_config(
    into: Annotated[Path, typer.Option(metavar="DIR", help="Where to write.")],
    vcenter: Annotated[
        list[str] | None, typer.Option(help="Name of a configured vCenter; again for each further one.")
    ] = None,
    home: Annotated[str, typer.Option(help="Where the files will lie on the server.")] = "/etc/nats",
) -> None:
    """Write the configuration of a NATS server: users with a key each, their permissions, TLS, encryption at rest.

    Keys that are there stay, also when a vCenter is added later.
    """
    from vsphere_events.subjects import is_vcenter
    from vsphere_functions.hosts.nats_files import write

    labels = vcenter or ["default"]
    if wrong := [label for label in labels if not is_vcenter(label)]:
        fail(f"--vcenter: not the name of a vCenter: {wrong[0]}", USAGE)
    try:
        for file in write(into, labels, home):
            typer.echo(file)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
