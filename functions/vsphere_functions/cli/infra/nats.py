"""The configuration of a NATS server: accounts and permissions, TLS, encryption at rest, a leaf node; without keys."""

from collections.abc import Iterator, Sequence

from vsphere_functions.hosts.nats_files import accounts, once


def files(labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Give the files; `nats-config` writes the same with keys."""
    for name, text in {**once(), **accounts(labels)}.items():
        yield f"nats/{name}", text
