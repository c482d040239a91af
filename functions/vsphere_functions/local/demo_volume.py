"""The demo's second part: a volume that outlives one machine and is mounted by the next."""

from __future__ import annotations

import gzip
import random
from base64 import b64decode
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.demo_show import STEPS, DemoError, expect, shown
from vsphere_functions.local.examples import example

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from vsphere_events.client import Client
    from vsphere_events.volume import Volume
    from vsphere_functions.local.vcenter import SimulatedVCenter

FIRST, SECOND = MACHINES = ("database-0", "database-1")
MOUNT_PATH = "/srv/database"
BYTES = 256 * 1024


async def volume_story(client: Client, console: Console, vcenter: SimulatedVCenter) -> None:
    """Write into a volume as one machine, delete the machine, and read the same as the next one."""
    console.rule("a volume is created", align="left")
    volume = (await client.create_volume(example("create_volume"))).volume
    console.print(f"{volume.self_link}  {volume.vmdk_path}  {volume.capacity_kb} KiB", markup=False)
    files = DatastoreFiles(vcenter, volume)
    console.rule("a machine mounts it, and writes", align="left")
    told = await mount(client, console, vcenter, FIRST)
    data = random.Random(FIRST).randbytes(BYTES)  # noqa: S311 - any bytes would do
    files.write(data)
    console.print(f"{FIRST}  wrote {digest(data)} (no guest runs here: PUT by the datastore's file access)")
    console.rule("the machine is deleted, the volume is not", align="left")
    await delete(client, console, FIRST, volume)
    console.rule("the next machine mounts it, and reads", align="left")
    again = await mount(client, console, vcenter, SECOND)
    expect(again == told, "the next guest should mount the same disk at the same place")
    read = files.read(BYTES)
    console.print(f"{SECOND}  read  {digest(read)}")
    expect(read == data, "the next machine should read what was written")
    console.rule("it is destroyed when nothing holds it", align="left")
    await destroy(client, console)
    await delete(client, console, SECOND, volume)
    await client.destroy_volume(example("destroy_volume"))
    left = (await client.list_volumes(example("list_volumes"))).volumes
    console.print(f"volumes: {', '.join(one.tag for one in left) or 'none'}")
    expect(not left, "no volume should be left")


async def mount(client: Client, console: Console, vcenter: SimulatedVCenter, name: str) -> list[str]:
    """Create a machine with the volume; what its guest is told of it."""
    data = example("create_machine", name)
    tag = example("get_volume")["id"]
    data["providerSpec"] |= {"volumes": [{"id": tag, "mountPath": MOUNT_PATH}]}
    with shown(console, STEPS["create_machine"], [name]) as show:
        await client.create_machine(data, on_progress=partial(show, name))
    volume = (await client.get_volume(example("get_volume"))).volume
    console.print(f"{tag}  attached to {', '.join(volume.attached_to) or 'nothing'}", markup=False)
    expect(volume.attached_to == (name,), f"the volume should be attached to {name}")
    told = mount_told(vcenter, name)
    for line in told:
        console.print(f"{name}  is told {line}", markup=False)
    expect(f"Where={MOUNT_PATH}" in told, "the guest should be told where to mount it")
    return told


async def delete(client: Client, console: Console, name: str, volume: Volume) -> None:
    """Delete a machine: it says what it detached, and the volume stays."""
    with shown(console, STEPS["delete_machine"], [name]) as show:
        gone = await client.delete_machine(example("delete_machine", name), on_progress=partial(show, name))
    for one in gone.detached_volumes:
        console.print(f"{name}  detached {one.vmdk_path}  {one.self_link}", markup=False)
    paths = [one.vmdk_path for one in gone.detached_volumes]
    expect(paths == [volume.vmdk_path], "the volume should be told as detached, and nothing else")
    now = (await client.get_volume(example("get_volume"))).volume
    expect((now.state, now.attached_to) == ("ready", ()), "the volume should stand, attached to nothing")


async def destroy(client: Client, console: Console) -> None:
    """Try to destroy the volume while a machine has it: nothing is touched."""
    try:
        await client.destroy_volume(example("destroy_volume"))
    except CallError as error:
        console.print(f"{error.code}: {error.message}", markup=False)
        expect(error.code is Code.FAILED_PRECONDITION, "it should be FailedPrecondition")
        return
    raise DemoError("a volume that a machine has was destroyed")


def mount_told(vcenter: SimulatedVCenter, name: str) -> list[str]:
    """Read what a VM's guest is told to mount, as an independent client sees it."""
    shown: Any = vcenter.govc("vm.info", "-json", f"/DC0/vm/demo/machines/{name}")
    options = {one["key"]: one["value"] for one in shown["virtualMachines"][0]["config"]["extraConfig"]}
    text = gzip.decompress(b64decode(options["guestinfo.vendordata"])).decode()
    return [line for line in text.splitlines() if line.startswith(("What=", "Where="))]


class DatastoreFiles:
    """The bytes of a volume by the datastore's file access, as an independent client has it."""

    def __init__(self, vcenter: SimulatedVCenter, volume: Volume) -> None:
        self._vcenter = vcenter
        self._datastore, _, path = volume.vmdk_path.removeprefix("[").partition("] ")
        self._path = f"{path.removesuffix('.vmdk')}-flat.vmdk"

    def write(self, data: bytes) -> None:
        """PUT the file that holds the disk's blocks."""
        with _local(data) as file:
            self._govc("datastore.upload", str(file), self._path)

    def read(self, count: int) -> bytes:
        """GET the first bytes of it."""
        with _local(b"") as file:
            self._govc("datastore.download", self._path, str(file))
            return file.read_bytes()[:count]

    def _govc(self, command: str, *arguments: str) -> None:
        self._vcenter.govc(command, "-dc", "DC0", "-ds", self._datastore, *arguments)


@contextmanager
def _local(data: bytes) -> Iterator[Path]:
    with TemporaryDirectory(prefix="vsphere-functions-") as folder:
        file = Path(folder) / "blocks"
        file.write_bytes(data)
        yield file


def digest(data: bytes) -> str:
    """Say how many bytes, and which."""
    return f"{len(data)} bytes, SHA-256 {sha256(data).hexdigest()}"
