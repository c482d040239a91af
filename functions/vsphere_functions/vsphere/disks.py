"""The disks of a VM: which it was born with, and how the others leave it unharmed."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.identity import BORN
from vsphere_functions.vsphere.machine import Machine, keyed
from vsphere_functions.vsphere.stores import Stores

KIB_PER_GIB = 1024 * 1024
DELTA = re.compile(r"-[0-9]{6}(-delta|-sesparse)?\.vmdk$", re.ASCII)
"""How the name of a snapshot's file ends."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A virtual disk device; `path` as `[datastore] folder/file.vmdk`, `uuid` its backing's, lower case."""

    key: int
    controller: int
    unit: int
    capacity_kb: int
    path: str
    uuid: str | None
    first_class_id: str | None
    device: dict[str, Any]

    @property
    def mode(self) -> str:
        """How the machine writes to it, and whether snapshots hold it (vSphere API, VirtualDiskMode)."""
        return str((self.device.get("backing") or {}).get("diskMode", ""))


def disks_of(devices: Iterable[dict[str, Any]] | None) -> list[Disk]:
    """Return the virtual disks among the devices, in the order of their slots."""
    disks = [_disk(device) for device in devices or [] if device.get("_type") == "VirtualDisk"]
    return sorted(disks, key=lambda disk: (disk.controller, disk.unit))


def _disk(device: dict[str, Any]) -> Disk:
    backing, first_class = device.get("backing") or {}, device.get("vDiskId") or {}
    uuid = backing.get("uuid")
    return Disk(
        key=int(device["key"]),
        controller=int(device.get("controllerKey", 0)),
        unit=int(device.get("unitNumber", 0)),
        capacity_kb=int(device.get("capacityInKB", 0)),
        path=backing.get("fileName", ""),
        uuid=uuid.lower() if uuid else None,
        first_class_id=first_class.get("id"),
        device=device,
    )


def birth_record(disks: Iterable[Disk]) -> str:
    """Write down the disks that a machine is born with: device key and backing uuid of each."""
    return json.dumps([[disk.key, disk.uuid] for disk in disks], separators=(",", ":"))


def not_born_with(machine: Machine, stores: Stores) -> list[Disk]:
    """Return the disks that have to outlive the machine.

    Born with it is a disk that its record names by key and uuid, that has no first-class id and lies in no volume
    store. A machine without a record never had anything attached by us; there, what lies in its own folder is its
    own.
    """
    record = machine.row.get(keyed(BORN))
    disks = disks_of(machine.row.get("config.hardware.device"))
    if not record:
        return [
            disk
            for disk in disks
            if disk.first_class_id or disk.path.rpartition("/")[0] != own_folder(machine)
        ]
    born = _born(record)
    return [
        disk
        for disk in disks
        if disk.first_class_id
        or not disk.uuid
        or (disk.key, disk.uuid) not in born
        or stores.cover(disk.path)
    ]


def _born(record: str) -> set[tuple[int, str]]:
    """Read a birth record; one that cannot be read names no disk, so that all of them are spared."""
    try:
        return {(int(key), str(uuid)) for key, uuid in json.loads(record)}
    except (TypeError, ValueError):
        return set()


def own_folder(machine: Machine) -> str:
    """Return the datastore folder of the VM's own files, such as `[ds] worker-1`."""
    folder: str = machine.row.get("config.files.vmPathName", "").rpartition("/")[0]
    return folder


def refuse_snapshots(machine: Machine, disks: Iterable[Disk]) -> None:
    """Refuse to take off a disk that a snapshot holds: a real vCenter does not let go of it."""
    for disk in disks:
        held = machine.row.get("snapshot") and not disk.mode.startswith("independent")
        if held or DELTA.search(disk.path):
            raise CallError(
                Code.FAILED_PRECONDITION,
                f"a snapshot of {machine.name!r} holds the disk {disk.path}; nothing was changed",
            )
