"""Volumes through a host: stores from the settings, names from the request, errors as results."""

from pathlib import Path

from support.http_host import request, running, settings_of, toml
from support.machines import SPEC
from support.volumes import INSTALLATION
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.vcenter import SimulatedVCenter

STORE = {"vcenter": "default", "datacenter": "DC0", "installation": INSTALLATION}


def about_volume(function: str, **data: object) -> CloudEvent:
    return request(function, data=data)


def test_a_volume_lives_and_dies_by_events(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    stores = toml("stores.default", {**STORE, "path": "[we ird (1)] vols"})
    stores += "\n" + toml("stores.big", {**STORE, "path": "[LocalDS_0] big"})
    with running(tmp_path, settings_of(vcenter, more=stores)) as host:
        made = host.call(about_volume("create_volume", id="data-1", info={"a": "QQ=="}))
        assert made.type == "io.vspherefunctions.create_volume.succeeded.v1"
        assert made.subject == "default/data-1"
        link = made.data["volume"]["selfLink"]
        assert host.call(about_volume("get_volume", selfLink=link)).data == made.data

        nameless = request("create_volume", id="request-1", data={"store": "big"})
        tag = host.call(nameless).data["volume"]["tag"]
        again = request("create_volume", id="request-1", data={"store": "big"})
        assert host.call(again).data["volume"]["tag"] == tag
        listed = host.call(about_volume("list_volumes")).data
        assert [one["tag"] for one in listed["volumes"]] == [tag, "data-1"]
        assert listed["unreachableStores"] == []

        grown = host.call(about_volume("resize_volume", id="data-1", capacityKB=2 << 20))
        assert grown.data["volume"]["capacityKB"] == 2 << 20
        copy = host.call(about_volume("copy_volume", id="data-1", toId="data-2", toStore="big"))
        assert copy.type == "io.vspherefunctions.copy_volume.succeeded.v1"
        assert copy.data["volume"]["info"] == {"a": "QQ=="}
        missing = host.call(about_volume("copy_volume", id="nothing", toId="data-2", toStore="big"))
        assert missing.data["error"]["code"] == "NotFound"
        assert copy.subject == missing.subject == "big/data-2"

        other = host.call(about_volume("create_volume", id="data-1"))
        assert other.data["error"]["code"] == "AlreadyExists"
        gone = host.call(about_volume("destroy_volume", id="data-1"))
        assert gone.type == "io.vspherefunctions.destroy_volume.succeeded.v1"
        assert host.call(about_volume("get_volume", id="data-1")).data["error"]["code"] == "NotFound"


def test_a_volume_goes_from_machine_to_machine_by_events(vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    stores = toml("stores.default", {**STORE, "path": "[we ird (1)] vols"})
    with running(tmp_path, settings_of(vcenter, more=stores)) as host:
        for name in ("worker-1", "worker-2"):
            host.call(request("create_machine", data={"machineName": name, "providerSpec": SPEC}))
        path = host.call(about_volume("create_volume", id="data-1")).data["volume"]["vmdkPath"]

        def move(function: str, machine: str, **disk: str) -> CloudEvent:
            data = {"machineName": machine, "providerSpec": {"tags": SPEC["tags"]}, **disk}
            return host.call(request(function, data=data))

        there = move("attach_volume", "worker-1", id="data-1")
        assert there.type == "io.vspherefunctions.attach_volume.succeeded.v1"
        assert there.subject == "worker-1"
        assert there.data["volume"]["attachedTo"] == ["worker-1"]
        taken = move("attach_volume", "worker-2", vmdkPath=path).data["error"]
        assert taken["code"] == "FailedPrecondition"
        assert "worker-1" in taken["message"]
        gone = move("detach_volume", "worker-1", vmdkPath=path)
        assert gone.type == "io.vspherefunctions.detach_volume.succeeded.v1"
        assert gone.data["volume"]["attachedTo"] == []
        moved = move("attach_volume", "worker-2", selfLink=gone.data["volume"]["selfLink"])
        assert moved.data["volume"]["attachedTo"] == ["worker-2"]
