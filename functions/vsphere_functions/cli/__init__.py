"""The command line: a file per command, each importing what it needs when it runs."""

import sys


def app() -> None:
    """Run `vsphere-functions`; ^C ends it without a traceback, also while it is still being loaded."""
    try:
        from vsphere_functions.cli.commands import app as commands

        commands(prog_name="vsphere-functions")
    except KeyboardInterrupt:
        sys.exit(130)
