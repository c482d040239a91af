"""The pyVmomi data objects that a reconfigure takes."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyVmomi import vim

from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.disks import KIB_PER_GIB, Disk, disks_of
from vsphere_functions.vsphere.slots import Slot

_DEVICE = vim.vm.device
_EDIT, _ADD, _REMOVE = (_DEVICE.VirtualDeviceSpec.Operation(name) for name in ("edit", "add", "remove"))
NEW_DISK = -200
"""A device key that only says "new"; the server gives the real one."""


def options(values: Mapping[str, str]) -> list[Any]:
    """Make extraConfig options; an empty value removes the key (vSphere API, ConfigSpec.extraConfig)."""
    return [vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def reconfigure_spec(extra: Mapping[str, str], **fields: Any) -> Any:
    """Make a ConfigSpec that sets extraConfig keys and the given fields."""
    return vim.vm.ConfigSpec(extraConfig=options(extra), **fields)


def growth(spec: CreateSpec, devices: Iterable[dict[str, Any]] | None) -> list[Any]:
    """Grow a machine's first disk to the size that the spec asks for.

    Done on the clone and not in its spec: there, the device would have to name the template's own file.
    """
    size = ((spec.system_disk and spec.system_disk.size) or 0) * KIB_PER_GIB
    disk = next(iter(disks_of(devices)), None)
    if disk is None or size <= disk.capacity_kb:
        return []
    return [grown_disk(disk, size)]


def grown_disk(disk: Disk, capacity_kb: int, *, zeroed: bool = False) -> Any:
    """Grow a VM's disk; `zeroed` also writes all that is new."""
    device = disk_device(disk, capacity_kb=capacity_kb)
    if zeroed and isinstance(device.backing, _DEVICE.VirtualDisk.FlatVer2BackingInfo):
        device.backing.eagerlyScrub = True
    return _DEVICE.VirtualDeviceSpec(operation=_EDIT, device=device)


def disk_device(disk: Disk, capacity_kb: int | None = None) -> Any:
    """Make the device that names an existing disk."""
    backing = disk.device.get("backing") or {}
    kind = backing.get("_type", "VirtualDiskFlatVer2BackingInfo").removeprefix("VirtualDisk")
    return _DEVICE.VirtualDisk(
        key=disk.key,
        controllerKey=disk.controller,
        unitNumber=disk.unit,
        capacityInKB=capacity_kb or disk.capacity_kb,
        capacityInBytes=(capacity_kb or disk.capacity_kb) * 1024,
        backing=getattr(_DEVICE.VirtualDisk, kind)(
            fileName=disk.path, diskMode=backing.get("diskMode", "persistent")
        ),
    )


def removals(disks: Iterable[Disk]) -> list[Any]:
    """Take disks off a VM; without a fileOperation their files stay (vSphere API, VirtualDeviceConfigSpec)."""
    return [_DEVICE.VirtualDeviceSpec(operation=_REMOVE, device=disk_device(disk)) for disk in disks]


def additions(disks: Iterable[tuple[str, str]], places: Iterable[Slot]) -> list[Any]:
    """Put existing disks, each a path and a mode, onto a VM; a controller that is not there yet is added first.

    Without a fileOperation the files are taken as they are (vSphere API, VirtualDeviceConfigSpec).
    """
    places = list(places)
    changes = [
        _DEVICE.VirtualDeviceSpec(
            operation=_ADD,
            device=_DEVICE.ParaVirtualSCSIController(key=key, busNumber=bus, sharedBus="noSharing"),
        )
        for key, bus in sorted({(one.controller, one.bus) for one in places if one.is_new}, reverse=True)
    ]
    for at, ((path, mode), place) in enumerate(zip(disks, places, strict=True)):
        device = _DEVICE.VirtualDisk(
            key=NEW_DISK - at,
            controllerKey=place.controller,
            unitNumber=place.unit,
            capacityInKB=0,  # what its file has
            backing=_DEVICE.VirtualDisk.FlatVer2BackingInfo(fileName=path, diskMode=mode),
        )
        changes.append(_DEVICE.VirtualDeviceSpec(operation=_ADD, device=device))
    return changes
