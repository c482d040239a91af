"""The pyVmomi data objects that a clone takes."""

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.disks import KIB_PER_GIB
from vsphere_functions.vsphere.hardware import config_fields, hardware
from vsphere_functions.vsphere.network import card_changes
from vsphere_functions.vsphere.place import Place
from vsphere_functions.vsphere.reconfigure import NEW_DISK, options
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import reference
from vsphere_functions.vsphere.slots import slots
from vsphere_functions.vsphere.wanted import Wanted

_DEVICE = vim.vm.device
_ADD = _DEVICE.VirtualDeviceSpec.Operation("add")


def clone_spec(want: Wanted, place: Place, datastore: Ref | None, extra: Mapping[str, str]) -> Any:
    """Make the spec of a clone that stays powered off and has its identity from the start.

    Without a datastore it is the spec to ask a storage pod for one.
    """
    config = vim.vm.ConfigSpec(
        uuid=want.incarnation,
        instanceUuid=want.instance_uuid,
        extraConfig=options(extra),
        deviceChange=[*card_changes(want.spec, place), *_new_disks(want.spec, place)],
        **config_fields(hardware(want.spec)),
    )
    where = vim.vm.RelocateSpec(
        datastore=reference(datastore) if datastore else None,
        pool=reference(place.pool),
        host=reference(place.host) if place.host else None,
    )
    return vim.vm.CloneSpec(
        location=where, config=config, customization=place.customization, powerOn=False, template=False
    )


def _new_disks(spec: CreateSpec, place: Place) -> list[Any]:
    """Add the spec's empty disks behind the template's first one, where the machine lies.

    With an empty path and no datastore the server puts the file beside the machine's own.
    """
    changes = []
    for at, (disk, (controller, unit)) in enumerate(zip(spec.disks, slots(place.devices), strict=False)):
        backing = _DEVICE.VirtualDisk.FlatVer2BackingInfo(
            fileName="",
            diskMode="persistent",
            thinProvisioned=disk.provisioning == "thin",
            eagerlyScrub=disk.provisioning == "eagerZeroedThick",
        )
        device = _DEVICE.VirtualDisk(
            key=NEW_DISK - at,
            controllerKey=controller,
            unitNumber=unit,
            capacityInKB=disk.size * KIB_PER_GIB,
            capacityInBytes=disk.size * KIB_PER_GIB * 1024,
            backing=backing,
        )
        create = _DEVICE.VirtualDeviceSpec.FileOperation("create")
        changes.append(_DEVICE.VirtualDeviceSpec(operation=_ADD, fileOperation=create, device=device))
    return changes


def storage_question(want: Wanted, place: Place, extra: Mapping[str, str]) -> Any:
    """Ask a storage pod where a clone should go (vSphere API, StoragePlacementSpec)."""
    drs, pod = vim.storageDrs, reference(place.storage)
    return drs.StoragePlacementSpec(
        type="clone",
        vm=reference(place.template),
        folder=reference(place.folder),
        cloneName=want.machine,
        cloneSpec=clone_spec(want, place, None, extra),
        podSelectionSpec=drs.PodSelectionSpec(
            storagePod=pod,
            initialVmConfig=[drs.PodSelectionSpec.VmPodConfig(storagePod=pod)],
        ),
    )
