"""govc, which knows nothing of us, sees the disks that the functions tell of."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support import machines
from support.volumes import (
    attach,
    create,
    destroy,
    detach,
    duplicate,
    files_of,
    found_store,
    get,
    listing,
    resize,
    store,
    with_stores,
)
from vsphere_events.volume import Volume
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.files import DatastorePath, plain_uuid

STORES = (store(), store("second", "[LocalDS_0] other"))
WORKER = "/DC0/vm/demo/machines/worker-1"


@pytest.fixture
def ctx(vcenter: SimulatedVCenter) -> Iterator[Context]:
    with with_stores(vcenter, *STORES) as one:
        yield one


def folders(vcenter: SimulatedVCenter) -> dict[str, list[str]]:
    """What lies in the stores."""
    found = {}
    for config in STORES:
        datastore, parts = config.folder
        listed = vcenter.govc("datastore.ls", "-dc", "DC0", "-ds", datastore, "/".join(parts))
        found[config.name] = listed.splitlines()
    return found


def seen(vcenter: SimulatedVCenter, path: str) -> tuple[int, str, str]:
    """Size in KiB, kind and uuid of a disk."""
    where = DatastorePath.parse(path)
    on = ("-dc", "DC0", "-ds", where.datastore)
    (folder,) = vcenter.govc("datastore.ls", "-json", "-l", *on, "/".join(where.parts[:-1]))
    (size,) = [one["capacityKb"] for one in folder["file"] if one["path"] == where.parts[-1]]
    (disk,) = vcenter.govc("datastore.disk.info", "-json", *on, "/".join(where.parts))
    text = vcenter.govc("datastore.disk.info", "-uuid", *on, "/".join(where.parts))
    (uuid,) = [line.partition(":")[2] for line in text.splitlines() if line.strip().startswith("UUID")]
    assert disk["Name"] == path
    return size, disk["DiskType"], plain_uuid(uuid)


def devices(vcenter: SimulatedVCenter) -> dict[str, tuple[int, str]]:
    """Sizes in KiB and uuids of the disks on the machine but its first."""
    shown: Any = vcenter.govc("device.info", "-json", "-dc", "DC0", "-vm", WORKER, "disk-*")
    return {
        one["backing"]["fileName"]: (one["capacityInKB"], plain_uuid(one["backing"]["uuid"]))
        for one in shown["devices"][1:]
    }


def written_uuid(ctx: Context, volume: Volume) -> str:
    """The uuid that was written down for a volume's disk."""
    name = (volume.self_link or "").split("/")[-2]
    body = files_of(ctx, name).read(found_store(ctx, name).folder / volume.tag / "volume.json")
    return str(json.loads(body or b"")["uuid"])


def test_govc_sees_the_same_disks(vcenter: SimulatedVCenter, ctx: Context) -> None:
    def agree() -> None:
        told = [*listing(ctx).volumes]
        for one in told:
            name = (one.self_link or "").split("/")[-2]
            assert get(ctx, one.tag, store=name) == one
            uuid = written_uuid(ctx, one)
            assert seen(vcenter, one.vmdk_path) == (one.capacity_kb, "thin", uuid)
            shown = devices(vcenter).get(one.vmdk_path)
            assert shown == ((one.capacity_kb, uuid) if one.attached_to == ("worker-1",) else None)
        tags = {config.name: list[str]() for config in STORES}
        for one in told:
            tags[(one.self_link or "").split("/")[-2]].append(one.tag)
        assert folders(vcenter) == tags

    machines.create(ctx)
    create(ctx, capacityKB=2048)
    create(ctx, "data-1", store="second", capacityKB=1024)
    agree()
    attach(ctx)
    assert [*devices(vcenter)] == [get(ctx).vmdk_path]
    agree()
    resize(ctx, 4096)
    resize(ctx, 3072, store="second")
    agree()
    detach(ctx)
    duplicate(ctx, "data-2", toStore="second")
    agree()
    destroy(ctx)
    agree()
