"""A request of every function that means something in the inventory of the simulated vCenter."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

TAGS = {"mcm.gardener.cloud/cluster": "shoot--demo--a", "mcm.gardener.cloud/role": "node"}
SPEC: dict[str, Any] = {
    "region": "eu-1",
    "datacenter": "DC0",
    "computeCluster": "DC0_C0",
    "folder": "demo/machines",
    "datastore": "we ird (1)",
    "templateVM": "templates/ubuntu-24.04",
    "network": "DC0_DVPG0",
    "numCpus": 2,
    "memory": 4096,
    "systemDisk": {"size": 20},
    "tags": TAGS,
}
_MACHINE = {"machineName": "worker-1", "providerSpec": {"tags": TAGS}}
_NEW = {"machineName": "worker-1", "providerSpec": SPEC, "secrets": {"userData": "#cloud-config\n"}}
_VOLUME = {"id": "data-1"}

EXAMPLES: dict[str, dict[str, Any]] = {
    "create_machine": _NEW,
    "delete_machine": _MACHINE,
    "initialize_machine": _NEW,
    "get_machine_status": _MACHINE,
    "list_machines": {"providerSpec": {"datacenter": "DC0", "folder": "demo/machines", "tags": TAGS}},
    "shut_down_machine": _MACHINE | {"mode": "trySoft", "timeoutSeconds": 60},
    "get_volume_ids": {
        "pvSpecList": [
            {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "b5c9d3f0"}},
            {"vsphereVolume": {"volumePath": "[we ird (1)] kubevols/data-1.vmdk"}},
        ]
    },
    "create_volume": _VOLUME | {"capacityKB": 1048576, "diskFormat": "thin"},
    "get_volume": _VOLUME,
    "destroy_volume": _VOLUME,
    "list_volumes": {"store": "default"},
    "attach_volume": _MACHINE | _VOLUME,
    "detach_volume": _MACHINE | _VOLUME,
    "resize_volume": _VOLUME | {"capacityKB": 2097152},
    "copy_volume": _VOLUME | {"toId": "data-2"},
    "find_orphans": {
        "providerSpec": {"tags": TAGS},
        "machines": [{"machineName": "worker-1"}],
        "minAgeSeconds": 3600,
    },
    "cancel_request": {"source": "/producers/cli", "id": "req-0001"},
    "validate_machine": _NEW,
}


def example(function: str, machine: str | None = None) -> dict[str, Any]:
    """Give the data of an example request, of its own; `machine` in place of the machine's name."""
    data = deepcopy(EXAMPLES[function])
    return data | {"machineName": machine} if machine else data
