"""The pyVmomi data objects that clone and reconfigure take."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyVmomi import vim

from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.disks import KIB_PER_GIB, Disk, disks_of
from vsphere_functions.vsphere.names import escape
from vsphere_functions.vsphere.place import Place
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import reference
from vsphere_functions.vsphere.wanted import Wanted

_DEVICE = vim.vm.device
_EDIT, _ADD, _REMOVE = (_DEVICE.VirtualDeviceSpec.Operation(name) for name in ("edit", "add", "remove"))
NEW_CARD = -100
"""A device key that only says "new"; the server gives the real one."""


def options(values: Mapping[str, str]) -> list[Any]:
    """Make extraConfig options; an empty value removes the key (vSphere API, ConfigSpec.extraConfig)."""
    return [vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def clone_spec(want: Wanted, place: Place, datastore: Ref | None, extra: Mapping[str, str]) -> Any:
    """Make the spec of a clone that stays powered off and has its identity from the start.

    Without a datastore it is the spec to ask a storage pod for one.
    """
    config = vim.vm.ConfigSpec(
        uuid=want.incarnation,
        instanceUuid=want.instance_uuid,
        extraConfig=options(extra),
        deviceChange=_card_changes(place),
        **want.sizes(),
    )
    where = vim.vm.RelocateSpec(
        datastore=reference(datastore) if datastore else None,
        pool=reference(place.pool),
        host=reference(place.host) if place.host else None,
    )
    return vim.vm.CloneSpec(location=where, config=config, powerOn=False, template=False)


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
    return [_DEVICE.VirtualDeviceSpec(operation=_EDIT, device=disk_device(disk, capacity_kb=size))]


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


def _card_changes(place: Place) -> list[Any]:
    """Put the template's first network card on the network, or a new one; no other card stays.

    The address is generated anew: two machines must not share their template's.
    """
    cards = [device for device in place.devices if "macAddress" in device]
    first = cards[0] if cards else None
    changes = [
        _DEVICE.VirtualDeviceSpec(
            operation=_REMOVE, device=getattr(_DEVICE, one["_type"])(key=int(one["key"]))
        )
        for one in cards[1:]
    ]
    card = _card(first, _backing(place))
    changes.append(_DEVICE.VirtualDeviceSpec(operation=_EDIT if first else _ADD, device=card))
    return changes


def _card(template: dict[str, Any] | None, backing: Any) -> Any:
    """Make the card that a machine gets: the template's in kind and slot, or a VMXNET3."""
    kind = template["_type"] if template else "VirtualVmxnet3"
    card = getattr(_DEVICE, kind)(
        key=int(template["key"]) if template else NEW_CARD,
        backing=backing,
        addressType="generated",
        macAddress="",
        connectable=_DEVICE.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=True
        ),
    )
    for name in ("controllerKey", "unitNumber"):
        if template and name in template:
            setattr(card, name, int(template[name]))
    return card


def _backing(place: Place) -> Any:
    """Name the network as its kind wants it: by port group, by NSX id, or by name."""
    row = place.atlas.rows[place.network]
    card = _DEVICE.VirtualEthernetCard
    if place.network.type == "DistributedVirtualPortgroup":
        switch = place.atlas.rows[row["config.distributedVirtualSwitch"]]["uuid"]
        port = vim.dvs.PortConnection(portgroupKey=row["key"], switchUuid=switch)
        return card.DistributedVirtualPortBackingInfo(port=port)
    if place.network.type == "OpaqueNetwork":
        return card.OpaqueNetworkBackingInfo(
            opaqueNetworkId=row["summary.opaqueNetworkId"],
            opaqueNetworkType=row["summary.opaqueNetworkType"],
        )
    name = place.atlas.name(place.network)
    return card.NetworkBackingInfo(deviceName=name, network=reference(place.network))


def storage_question(want: Wanted, place: Place, extra: Mapping[str, str]) -> Any:
    """Ask a storage pod where a clone should go (vSphere API, StoragePlacementSpec)."""
    drs, pod = vim.storageDrs, reference(place.storage)
    return drs.StoragePlacementSpec(
        type="clone",
        vm=reference(place.template),
        folder=reference(place.folder),
        cloneName=escape(want.machine),
        cloneSpec=clone_spec(want, place, None, extra),
        podSelectionSpec=drs.PodSelectionSpec(
            storagePod=pod,
            initialVmConfig=[drs.PodSelectionSpec.VmPodConfig(storagePod=pod)],
        ),
    )
