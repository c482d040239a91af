"""`vsphere-functions up`."""

from pathlib import Path
from typing import Annotated

import typer

from vsphere_functions.cli.given import fail


def up(
    env_file: Annotated[
        Path | None, typer.Option(help="Write KEY=value lines for a shell to this file when all is ready.")
    ] = None,
    nats_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of NATS; 0 takes a free one.")] = 0,
    vcenter_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the vCenter; 0 takes a free one.")
    ] = 0,
    vms: Annotated[int, typer.Option(min=0, help="Further machines in the vCenter.")] = 0,
) -> None:
    """Run NATS, a simulated vCenter, a worker and the HTTP router on loopback until ^C."""
    from vsphere_functions.local.stack import StackError
    from vsphere_functions.local.tools import ToolError
    from vsphere_functions.local.up import up as run

    try:
        raise typer.Exit(run(env_file=env_file, nats_port=nats_port, vcenter_port=vcenter_port, vms=vms))
    except (StackError, ToolError) as error:
        fail(str(error))
