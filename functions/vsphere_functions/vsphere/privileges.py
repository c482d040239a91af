"""What an account may do, asked of vCenter before anything is begun."""

from collections.abc import Iterator
from typing import NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.vcenter import VCenter

TEMPLATE = ("VirtualMachine.Provisioning.DeployTemplate",)
FOLDER = (
    "VirtualMachine.Inventory.CreateFromExisting",
    "VirtualMachine.Inventory.Delete",
    "VirtualMachine.Config.AddNewDisk",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Config.CPUCount",
    "VirtualMachine.Config.DiskExtend",
    "VirtualMachine.Config.EditDevice",
    "VirtualMachine.Config.Memory",
    "VirtualMachine.Config.RemoveDisk",
    "VirtualMachine.Config.Settings",
    "VirtualMachine.Interact.PowerOff",
    "VirtualMachine.Interact.PowerOn",
    "Global.SetCustomField",
)
POOL = ("Resource.AssignVMToPool",)
STORAGE = ("Datastore.AllocateSpace",)
NETWORK = ("Network.Assign",)
ROOT = ("Global.ManageCustomFields",)
RESERVING = ("VirtualMachine.Config.Resource",)
SEVERAL_CARDS = ("VirtualMachine.Config.AddRemoveDevice",)
CUSTOMIZING = ("VirtualMachine.Provisioning.Customize",)
READING_SPECS = ("VirtualMachine.Provisioning.ReadCustSpecs",)


class Missing(NamedTuple):
    """A privilege that the account lacks, and the name of the object that it lacks it on."""

    privilege: str
    object: str


def missing_privileges(vcenter: VCenter, found: Resolved) -> list[Missing]:
    """Ask which privileges of a machine's whole life the account lacks where it goes (one call and a read).

    Source: AuthorizationManager.HasUserPrivilegeOnEntities of the vSphere API.
    """
    wanted = dict(_wanted(vcenter, found))
    answer = vcenter.ask(
        vcenter.session.content["authorizationManager"],
        "HasUserPrivilegeOnEntities",
        entities=list(wanted),
        userName=_user(vcenter),
        privId=sorted({privilege for privileges in wanted.values() for privilege in privileges}),
    )
    lacking = {
        (one.entity._GetMoId(), each.privId)  # noqa: SLF001 - public there
        for one in answer
        for each in one.privAvailability
        if not each.isGranted
    }
    return [
        Missing(privilege, _name(found, ref))
        for ref, privileges in wanted.items()
        for privilege in privileges
        if (ref.id, privilege) in lacking
    ]


def refuse_missing(vcenter: VCenter, found: Resolved) -> None:
    """Refuse to begin what would stop half-way: PermissionDenied, naming every privilege and its object."""
    missing = missing_privileges(vcenter, found)
    if missing:
        details = [Detail(f"privilege {one.privilege} is missing on {one.object}") for one in missing]
        told = "; ".join(detail.reason for detail in details)
        raise CallError(Code.PERMISSION_DENIED, f"{told}; nothing was changed", details=details)


def _wanted(vcenter: VCenter, found: Resolved) -> Iterator[tuple[Ref, tuple[str, ...]]]:
    spec = found.spec
    customized = spec is not None and spec.customization is not None
    yield vcenter.session.content["rootFolder"], (*ROOT, *(READING_SPECS if customized else ()))
    places: tuple[tuple[Ref | None, tuple[str, ...]], ...] = (
        (found.template, (*TEMPLATE, *(CUSTOMIZING if customized else ()))),
        (found.folder, (*FOLDER, *_extras(spec))),
        (found.pool, POOL),
        (found.storage, STORAGE),
        *((network, NETWORK) for network in found.networks),
    )
    for ref, privileges in places:
        if ref is not None:
            yield ref, privileges


def _extras(spec: CreateSpec | None) -> Iterator[str]:
    """Name what only some specs need of the folder."""
    if spec is None:
        return
    if spec.cpu_allocation or spec.memory_allocation or spec.memory_reservation_locked_to_max is not None:
        yield from RESERVING
    if len(spec.networks) > 1:
        yield from SEVERAL_CARDS


def _user(vcenter: VCenter) -> str:
    manager = vcenter.session.content["sessionManager"]
    row = vcenter.read([manager], {"SessionManager": ["currentSession"]})[manager]
    name: str = row["currentSession"]["userName"]
    return name


def _name(found: Resolved, ref: Ref) -> str:
    return "/".join(found.atlas.full_path(ref)) if ref in found.atlas.rows else "the root folder"
