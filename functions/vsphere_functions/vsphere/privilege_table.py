"""Every privilege that the functions need: where vCenter asks for it, for which of them, and why.

The checks before a create, `doctor`, the role scripts and the reference page are made from this table. Source: the
privileges that the vSphere API reference names for methods and for the fields of VirtualMachineConfigSpec.
"""

from enum import StrEnum
from typing import NamedTuple


class On(StrEnum):
    """The objects that vCenter asks for privileges on; each gets a role of its own."""

    ROOT = "root"
    TEMPLATE = "template"
    FOLDER = "folder"
    POOL = "pool"
    STORAGE = "storage"
    NETWORK = "network"
    STORE = "store"


OBJECTS = {
    On.ROOT: "the root folder, propagating: everything is found by reading the inventory",
    On.TEMPLATE: "templates, or their folders, propagating",
    On.FOLDER: "folders of machines, propagating",
    On.POOL: "resource pools of machines",
    On.STORAGE: "datastores of machines; a datastore cluster, propagating",
    On.NETWORK: "networks and port groups of machines",
    On.STORE: "datastores with volume stores, of which machines may have disks too",
}


class When(StrEnum):
    """What of a request asks for a privilege that others do without."""

    TEMPLATE = "the source is a template"
    PLAIN = "the source is a VM that is no template"
    CUSTOMIZED = "`customization`"
    RESERVED = "CPU or memory allocations"
    CARDS = "several networks"
    VOLUMES = "`volumes`"
    VAPP = "vApp properties"
    POLICY = "`storagePolicy`"


class Privilege(NamedTuple):
    """A privilege by the API's name; without `when`, all requests of its functions need it."""

    id: str
    on: On
    functions: tuple[str, ...]
    why: str
    when: When | None = None


_MAKE = ("create_machine", "initialize_machine")
_UNMAKE = ("delete_machine", "create_machine", "find_orphans")
_READ = ("get_volume", "list_volumes", "find_orphans")
_WRITE = ("create_volume", "destroy_volume", "copy_volume", "resize_volume")
_DISKS = ("attach_volume", "detach_volume")
_ALL = (
    *(
        *_MAKE,
        "delete_machine",
        "shut_down_machine",
        "get_machine_status",
        "list_machines",
        "validate_machine",
    ),
    *(*_READ, *_WRITE, *_DISKS),
)

PRIVILEGES: tuple[Privilege, ...] = (
    Privilege("System.Read", On.ROOT, _ALL, "read properties: absence is proven by seeing everything"),
    Privilege("System.View", On.ROOT, _ALL, "see that objects are there"),
    Privilege("Global.ManageCustomFields", On.ROOT, _MAKE, "make the custom attributes that show tags"),
    Privilege(
        *("VirtualMachine.Provisioning.ReadCustSpecs", On.ROOT, _MAKE),
        *("read the customization spec that is named", When.CUSTOMIZED),
    ),
    Privilege(
        *("StorageProfile.View", On.ROOT, ("create_volume",)),
        *("find the storage policy that is named", When.POLICY),
    ),
    Privilege(
        *("VirtualMachine.Provisioning.DeployTemplate", On.TEMPLATE, ("create_machine",)),
        *("clone from it", When.TEMPLATE),
    ),
    Privilege(
        *("VirtualMachine.Provisioning.Clone", On.TEMPLATE, ("create_machine",)),
        *("clone from it", When.PLAIN),
    ),
    Privilege(
        *("VirtualMachine.Provisioning.Customize", On.TEMPLATE, ("create_machine",)),
        *("apply the customization spec to the clone", When.CUSTOMIZED),
    ),
    Privilege(
        "VirtualMachine.Inventory.CreateFromExisting", On.FOLDER, ("create_machine",), "put the clone there"
    ),
    Privilege("VirtualMachine.Config.AddNewDisk", On.FOLDER, _MAKE, "the clone's disks, and `disks`"),
    Privilege(
        *("VirtualMachine.Config.AdvancedConfig", On.FOLDER, (*_MAKE, "delete_machine", "find_orphans")),
        "the ownership mark, progress of a request and bootstrap data, all in extraConfig",
    ),
    Privilege("VirtualMachine.Config.CPUCount", On.FOLDER, _MAKE, "`numCpus`"),
    Privilege("VirtualMachine.Config.Memory", On.FOLDER, _MAKE, "`memory`"),
    Privilege(
        "VirtualMachine.Config.Settings", On.FOLDER, _MAKE, "uuids, `guestId`, disk uuids in the guest"
    ),
    Privilege("VirtualMachine.Config.EditDevice", On.FOLDER, _MAKE, "put the network card on its network"),
    Privilege("VirtualMachine.Config.DiskExtend", On.FOLDER, (*_MAKE, "resize_volume"), "grow a disk"),
    Privilege(
        *("VirtualMachine.Config.AddRemoveDevice", On.FOLDER, _MAKE),
        *("new network cards in place of the template's", When.CARDS),
    ),
    Privilege(
        *("VirtualMachine.Config.Resource", On.FOLDER, _MAKE),
        *("reservations, limits and shares", When.RESERVED),
    ),
    Privilege("VApp.InstanceConfig", On.FOLDER, _MAKE, "set the template's vApp properties", When.VAPP),
    Privilege("Global.SetCustomField", On.FOLDER, _MAKE, "show tags as custom attributes"),
    Privilege("VirtualMachine.Interact.PowerOn", On.FOLDER, _MAKE, "start the machine"),
    Privilege(
        *("VirtualMachine.Interact.PowerOff", On.FOLDER, ("shut_down_machine", *_UNMAKE)),
        "shut the guest down, or power off",
    ),
    Privilege(
        *("VirtualMachine.Config.RemoveDisk", On.FOLDER, (*_UNMAKE, "detach_volume")),
        "detach disks that are not the machine's own, so that they outlive it",
    ),
    Privilege(
        "VirtualMachine.Config.AddExistingDisk", On.FOLDER, ("attach_volume",), "attach a volume's disk"
    ),
    Privilege(
        *("VirtualMachine.Config.AddExistingDisk", On.FOLDER, _MAKE),
        *("attach a volume's disk", When.VOLUMES),
    ),
    Privilege(
        *("VirtualMachine.Config.AddRemoveDevice", On.FOLDER, ("attach_volume",)),
        "add a controller when those that are there are full",
    ),
    Privilege(
        *("VirtualMachine.Inventory.Delete", On.FOLDER, _UNMAKE),
        "destroy the machine; a create that is canceled or lost its lease destroys its own",
    ),
    Privilege("Resource.AssignVMToPool", On.POOL, ("create_machine",), "run the machine there"),
    Privilege("Datastore.AllocateSpace", On.STORAGE, _MAKE, "room for the machine's disks"),
    Privilege("Network.Assign", On.NETWORK, _MAKE, "connect the machine"),
    Privilege(
        "Datastore.Browse", On.STORE, (*_READ, *_WRITE, *_DISKS), "find volumes and read their records"
    ),
    Privilege(*("Datastore.Browse", On.STORE, _MAKE), *("find the volumes that are named", When.VOLUMES)),
    Privilege(
        *("Datastore.FileManagement", On.STORE, _MAKE),
        *("read the records and uuids of the volumes that are named", When.VOLUMES),
    ),
    Privilege(
        *("Datastore.FileManagement", On.STORE, (*_READ, *_WRITE, *_DISKS)),
        "make, move and delete disks and records; reading a record or a disk's uuid takes it too",
    ),
    Privilege(
        *("Datastore.AllocateSpace", On.STORE, (*_WRITE, *_DISKS)),
        "room for volumes, and for machines on the same datastore",
    ),
)

WITHOUT = frozenset({"get_volume_ids", "cancel_request"})
"""Functions that ask nothing of vCenter."""
MACHINE_LIFE = frozenset({*_MAKE, "delete_machine", "shut_down_machine"})
"""What a create looks ahead to: who cannot delete a machine must not make one."""


def needed(on: On, functions: frozenset[str], when: frozenset[When] = frozenset(When)) -> tuple[str, ...]:
    """Return what these functions need there, in the table's order, under the given conditions."""
    return tuple(
        one.id
        for one in PRIVILEGES
        if one.on is on and functions.intersection(one.functions) and (one.when is None or one.when in when)
    )
