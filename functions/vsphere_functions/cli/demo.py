"""`vsphere-functions demo`."""

import typer

from vsphere_functions.cli.given import fail


def demo() -> None:
    """Run the main job on a stack of its own: create, look at and delete machines, then compare the vCenter."""
    from vsphere_functions.local.demo import demo as run
    from vsphere_functions.local.stack import StackError
    from vsphere_functions.local.tools import ToolError

    try:
        raise typer.Exit(run())
    except (StackError, ToolError) as error:
        fail(str(error))
