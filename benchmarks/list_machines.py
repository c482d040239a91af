"""List machines beside `govc object.collect` of three paths, on one simulated vCenter: seconds and their ratio."""

import argparse
import platform
import statistics
import subprocess
import time
from collections.abc import Callable

from vsphere_events.machine import ListMachinesRequest
from vsphere_functions.context import Context
from vsphere_functions.local.tools import ensure
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.list_machines import list_machines
from vsphere_functions.vsphere.identity import MARK, Mark
from vsphere_functions.vsphere.session import Endpoint
from vsphere_functions.vsphere.sessions import Credentials, Sessions

TAGS = {"mcm.gardener.cloud/cluster": "bench", "mcm.gardener.cloud/role": "node"}
PATHS = ("name", "config.uuid", "runtime.powerState")


def seconds(work: Callable[[], object]) -> float:
    """Time one run."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def main() -> None:
    """Measure the two in turn, so that both see the same machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    mark = Mark("bench/node", "{name}", "-", "{uuid}", "{uuid}", "-", region="eu-1", phase="ready")
    request = ListMachinesRequest.parse({"providerSpec": {"tags": TAGS}})
    (govc,) = ensure("govc")
    with SimulatedVCenter(vms=asked.machines, marks={MARK: str(mark)}) as vcenter:
        endpoint = Endpoint(vcenter.url, ca_file=vcenter.ca_file)
        sessions = Sessions({"default": lambda: Credentials(endpoint, vcenter.username, vcenter.password)})
        context = Context("default", sessions)
        command = [str(govc), "object.collect", "-json", "-type", "m", "/", *PATHS]

        def collect() -> object:
            return subprocess.run(
                command, env=vcenter.govc_environment, check=True, stdout=subprocess.PIPE
            ).stdout

        found = list_machines(request, context)
        assert len(found.machine_list) == min(asked.machines, 5000)
        ours, theirs = [], []
        for _ in range(asked.rounds):
            ours.append(seconds(lambda: list_machines(request, context)))
            theirs.append(seconds(collect))
        sessions.close()
    print(f"{asked.machines} machines, {asked.rounds} rounds, Python {platform.python_version()}")
    print(f"list_machines        {statistics.median(ours):.2f} s")
    print(f"govc object.collect  {statistics.median(theirs):.2f} s")
    print(f"ratio                {statistics.median(ours) / statistics.median(theirs):.2f}")


if __name__ == "__main__":
    main()
