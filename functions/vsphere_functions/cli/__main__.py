"""`python -m vsphere_functions.cli` is `vsphere-functions`."""

from vsphere_functions.cli import app

app()
