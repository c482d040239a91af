"""`python -m vsphere_functions.cli.infra [--check] [--into DIR] [--vcenters a,b] …`: write or compare the manifests."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vsphere_events.subjects import is_vcenter
from vsphere_functions.cli.infra import (
    compose,
    facts,
    folder,
    kubernetes,
    kubernetes_keda,
    nats,
    openfaas,
    systemd,
    vcenter,
)
from vsphere_functions.cli.infra import knative_brokers as brokers
from vsphere_functions.cli.infra import knative_services as services

INFRA = Path(__file__).parents[4] / "infra"


def files(site: facts.Site) -> dict[str, str]:
    """Give every generated file of a place, by its path below `infra/`."""
    parts = (kubernetes, kubernetes_keda, services, brokers, openfaas, compose, systemd, nats, vcenter)
    return {path: text for part in parts for path, text in part.files(site).items()}


def main(arguments: Sequence[str]) -> int:
    """Write the files, and keep what people have edited; with `--check` compare, 1 when one is stale or spent."""
    parser = argparse.ArgumentParser(prog="python -m vsphere_functions.cli.infra", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--into", type=Path, default=INFRA, metavar="DIR", help="folder to write to")
    parser.add_argument(
        "--vcenters", default="default", metavar="NAMES", help="names of the vCenters, with commas between"
    )
    parser.add_argument(
        "--nats", default=facts.Site.nats, metavar="HOST", help="where NATS is in the cluster"
    )
    parser.add_argument(
        "--account", default=facts.Site.account, help="account of the streams in NATS, for the scaler"
    )
    options = parser.parse_args(arguments)
    site = facts.Site(options.vcenters.split(","), options.nats, options.account)
    if not all(map(is_vcenter, site.vcenters)):
        parser.error("a vCenter's name is at most 63 lower-case letters, digits and dashes")
    wanted = folder.with_list(files(site))
    found = list(folder.acts(options.into, wanted))
    for name, act in found:
        if options.check:
            sys.stderr.write(f"stale: infra/{name}; run make infra\n")
        else:
            sys.stdout.write(folder.settle(options.into / name, act, wanted.get(name)))
    return int(options.check and bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
