"""Request data that each function takes, as JSON."""

from typing import Any

UUID = "422e4956-ad22-1139-6d72-59cc8f26bc90"
TAGS = {"mcm.gardener.cloud/cluster": "shoot--a", "mcm.gardener.cloud/role": "node"}
SPEC: dict[str, Any] = {
    "datacenter": "DC0",
    "computeCluster": "DC0_C0",
    "datastore": "we ird (1)",
    "templateVM": "templates/ubuntu",
    "network": "VM Network",
    "tags": TAGS,
}
FULL: dict[str, Any] = SPEC | {
    "region": "eu-1",
    "resourcePool": "pool",
    "hostSystem": "esx-1",
    "folder": "a/b",
    "numCpus": 2,
    "memory": 4096,
    "systemDisk": {"size": 20},
    "extraConfig": {"sched.swap.vmxSwapEnabled": "FALSE"},
    "guestId": "ubuntu64Guest",
}
OWNED = {"tags": TAGS}
LOGIN = {"vsphereHost": "vc.example", "vsphereUsername": "u", "vspherePassword": "hunter2"}
LINK = "vsphere-volume://default/fast/data-1"

MINIMAL: dict[str, dict[str, Any]] = {
    "create_machine": {"machineName": "w1", "providerSpec": SPEC},
    "delete_machine": {"machineName": "w1", "providerSpec": OWNED},
    "initialize_machine": {"machineName": "w1", "providerSpec": SPEC},
    "get_machine_status": {"machineName": "w1", "providerSpec": OWNED},
    "list_machines": {"providerSpec": OWNED},
    "shut_down_machine": {"machineName": "w1", "providerSpec": OWNED},
    "get_volume_ids": {"pvSpecList": []},
    "create_volume": {},
    "get_volume": {"id": "data-1"},
    "destroy_volume": {"selfLink": LINK},
    "list_volumes": {},
    "attach_volume": {"machineName": "w1", "providerSpec": OWNED, "id": "data-1"},
    "detach_volume": {"machineName": "w1", "providerSpec": OWNED, "selfLink": LINK},
    "resize_volume": {"id": "data-1", "capacityKB": 2048},
    "copy_volume": {"id": "data-1", "toId": "data-2"},
    "find_orphans": {"providerSpec": OWNED, "machines": [], "minAgeSeconds": 0},
    "cancel_request": {"source": "/producers/demo", "id": "req-1"},
    "validate_machine": {"machineName": "w1", "providerSpec": SPEC},
}
MORE: dict[str, dict[str, Any]] = {
    "create_machine": {"providerSpec": FULL, "secrets": LOGIN | {"userData": "x"}, "lastKnownState": "{"},
    "delete_machine": {"providerID": f"vsphere://eu-1/{UUID}", "secretRef": "lab", "lastKnownState": None},
    "initialize_machine": {"providerSpec": FULL, "secrets": {"userData": "x"}},
    "get_machine_status": {"machineName": None, "providerID": f"vsphere://{UUID.upper()}"},
    "list_machines": {"pageSize": 1, "pageToken": f"vsphere://{UUID}", "providerSpec": FULL},
    "shut_down_machine": {"mode": "soft", "timeoutSeconds": 1},
    "get_volume_ids": {"pvSpecList": '[{"csi": {"driver": "csi.vsphere.vmware.com"}}, null]'},
    "create_volume": {
        "id": "a",
        "store": "vsphere-volume://default/fast",
        "capacityKB": 1,
        "info": {"k": "dg=="},
    },
    "get_volume": {"store": "fast"},
    "destroy_volume": {"secretRef": "lab"},
    "list_volumes": {"store": "fast", "audit": True, "pageSize": 5000},
    "attach_volume": {"id": None, "vmdkPath": "[ds] a/b.vmdk", "readOnly": True},
    "detach_volume": {"providerID": f"vsphere://{UUID}"},
    "resize_volume": {"store": "fast"},
    "copy_volume": {"toStore": "slow"},
    "find_orphans": {
        "machines": [{"machineName": "w1"}],
        "delete": [f"machine/vm-1/{UUID}/w1", "volume/fast/data-1/0123456789ab"],
        "minAgeSeconds": 60,
    },
    "cancel_request": {},
    "validate_machine": {"machineName": "", "providerSpec": {"bogus": [None]}},
}
