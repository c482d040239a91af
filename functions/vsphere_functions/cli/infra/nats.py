"""The configuration of a NATS server: accounts and permissions, TLS, encryption at rest, a leaf node; without keys."""

from vsphere_functions.cli.infra.facts import Site
from vsphere_functions.hosts.nats_files import accounts, once


def files(site: Site) -> dict[str, str]:
    """Give the files; `nats-config` writes the same with keys."""
    return {f"nats/{name}": text for name, text in {**once(), **accounts(site.vcenters)}.items()}
