"""The NATS configuration that stands in the repository: for one vCenter, `default`, and without keys."""

from pathlib import Path

from vsphere_functions.hosts.nats_files import accounts, once


def nats_files(root: Path) -> dict[Path, str]:
    """Give the files, by path below the checkout."""
    return {
        root / "infra" / "nats" / name: text for name, text in {**once(), **accounts(["default"])}.items()
    }
