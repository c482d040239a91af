"""The commands, a file each."""

from typing import Annotated

import typer

from vsphere_functions.cli.demo import demo
from vsphere_functions.cli.dlq import dlq
from vsphere_functions.cli.doctor import doctor
from vsphere_functions.cli.example import example
from vsphere_functions.cli.invoke import invoke
from vsphere_functions.cli.nats_config import nats_config
from vsphere_functions.cli.serve import serve
from vsphere_functions.cli.settings import settings
from vsphere_functions.cli.setup import setup
from vsphere_functions.cli.up import up
from vsphere_functions.cli.worker import worker

COMMANDS = (worker, serve, setup, settings, doctor, nats_config, invoke, example, up, demo)

app = typer.Typer(
    name="vsphere-functions",
    help="Machines and volumes on vSphere, as functions over NATS JetStream and HTTP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        from importlib.metadata import version

        typer.echo(version("vsphere-functions"))
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version, and end.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Take what stands before a command."""
    del version


for _command in COMMANDS:
    app.command()(_command)
app.add_typer(dlq, name="dlq")
