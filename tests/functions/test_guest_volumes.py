"""V32 from the request into the guest: what a machine is told is run on its volume's bytes from the datastore."""

import gzip
import random
from base64 import b64decode
from pathlib import Path

import pytest

from support import machines
from support.guest import Guest
from support.machines import extra
from support.scene import FOLDER, Scene
from support.volumes import files_of
from vsphere_functions.vsphere.files import DatastorePath

SIZE = 2**23
KEYS = {"cloud-init": "guestinfo.vendordata", "ignition": "guestinfo.ignition.config.data"}


@pytest.mark.parametrize("way", KEYS)
def test_v32_a_volume_with_data_is_mounted_by_the_next_machine_and_not_formatted(
    on: Scene, tmp_path: Path, way: str
) -> None:
    blocks = DatastorePath.parse(on.disk.replace(".vmdk", "-flat.vmdk"))
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(SIZE))  # the simulator's disks have no blocks before somebody writes
    guest = booted(on, tmp_path / "first", way)
    assert guest.shows(disk)["TYPE"] == "ext4"
    data = random.Random(32).randbytes(2**16)
    filled = disk.read_bytes()[: -len(data)] + data
    files_of(on.ctx).write(blocks, filled)
    gone = machines.delete(on.ctx, f"{way}-first")
    assert [one.vmdk_path for one in gone.detached_volumes] == [on.disk]

    disk.write_bytes(files_of(on.ctx).read(blocks) or b"")
    assert disk.read_bytes() == filled, "the machine is gone and the data are not"
    again = booted(on, tmp_path / "second", way)
    assert disk.read_bytes() == filled
    mount = (again.root / "etc/systemd/system/data.mount").read_text()
    assert mount == (guest.root / "etc/systemd/system/data.mount").read_text().replace("/first/", "/second/")
    machines.delete(on.ctx, f"{way}-second")


def booted(on: Scene, root: Path, way: str) -> Guest:
    """Create a machine with the volume, and do in its guest what it is told of it; `disk` lies beside its root."""
    name = f"{way}-{root.name}"
    machines.create(on.ctx, name, volumes=[{"id": on.volume, "mountPath": "/data"}], bootstrap=way)
    told = gzip.decompress(b64decode(extra(on.vcenter, f"{FOLDER}/{name}")[KEYS[way]])).decode()
    guest = Guest(root)
    uuid = "".join(digit for digit in on.soap.disk_uuid(on.disk) if digit.isalnum()).lower()
    guest.plug(root.parent / "disk", uuid)
    if way == "ignition":
        guest.ignite(told)
    else:
        guest.boot(told)
    guest.format()
    return guest
