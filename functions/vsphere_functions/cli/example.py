"""`vsphere-functions example`."""

import json
from typing import Annotated

import typer

from vsphere_functions.cli.given import known


def example(function: Annotated[str, typer.Argument(help="A function of the contract.")]) -> None:
    """Print a request as JSON that means something in the inventory of `up`."""
    from vsphere_functions.local.examples import example as request

    typer.echo(json.dumps({"data": request(known(function))}, indent=2, ensure_ascii=False))
