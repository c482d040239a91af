"""The table of privileges: whole, real, and what the roles and the checks are made from."""

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim

from support.machines import at, create, delete, foreign, validate
from vsphere_functions.cli.infra.vcenter import privileges, role
from vsphere_functions.local.tools import ensure
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.catalogue import CATALOGUE
from vsphere_functions.vsphere.places_allowed import lacking_anywhere, lacking_on_root
from vsphere_functions.vsphere.privilege_table import MACHINE_LIFE, PRIVILEGES, WITHOUT, On, When, needed

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "infra" / "vcenter" / "roles.sh"
PACKAGE = ROOT / "functions" / "vsphere_functions"
SYSTEM = {"System.Anonymous", "System.Read", "System.View"}
PRINCIPAL = "VSPHERE.LOCAL\\machines"

METHODS: dict[str, set[str]] = {
    "AddCustomFieldDef": {"Global.ManageCustomFields"},
    "CloneVM_Task": {
        "VirtualMachine.Provisioning.DeployTemplate",
        "VirtualMachine.Provisioning.Clone",
        "VirtualMachine.Provisioning.Customize",
        "VirtualMachine.Inventory.CreateFromExisting",
        "Resource.AssignVMToPool",
        "Datastore.AllocateSpace",
        "Network.Assign",
    },
    "CopyVirtualDisk_Task": {"Datastore.FileManagement"},
    "CreateVirtualDisk_Task": {"Datastore.FileManagement"},
    "DeleteDatastoreFile_Task": {"Datastore.FileManagement"},
    "DeleteVirtualDisk_Task": {"Datastore.FileManagement"},
    "Destroy_Task": {"VirtualMachine.Inventory.Delete"},
    "ExtendVirtualDisk_Task": {"Datastore.FileManagement"},
    "GetCustomizationSpec": {"VirtualMachine.Provisioning.ReadCustSpecs"},
    "MakeDirectory": {"Datastore.FileManagement"},
    "MoveDatastoreFile_Task": {"Datastore.FileManagement"},
    "MoveVirtualDisk_Task": {"Datastore.FileManagement"},
    "PbmQueryProfile": {"StorageProfile.View"},
    "PbmRetrieveContent": {"StorageProfile.View"},
    "PowerOffVM_Task": {"VirtualMachine.Interact.PowerOff"},
    "PowerOnVM_Task": {"VirtualMachine.Interact.PowerOn"},
    "QueryVirtualDiskUuid": {"Datastore.FileManagement"},
    "ReconfigVM_Task": {"VirtualMachine.Config.AdvancedConfig"},
    "SearchDatastoreSubFolders_Task": {"Datastore.Browse"},
    "SearchDatastore_Task": {"Datastore.Browse"},
    "SetField": {"Global.SetCustomField"},
    "SetVirtualDiskUuid": {"Datastore.FileManagement"},
    "ShutdownGuest": {"VirtualMachine.Interact.PowerOff"},
}
"""What the API reference asks for; of a reconfigure the fields that it is always given."""
FREE = {
    "CancelTask",  # of a task of one's own
    *("CreateContainerView", "CurrentTime", "DestroyView", "FindAllByUuid", "FindByInventoryPath", "Login"),
    *("HasUserPrivilegeOnEntities", "Logout", "RecommendDatastores", "RetrieveServiceContent"),
    "PbmRetrieveServiceContent",
}
"""Methods that System.Read and System.View are enough for, or no privilege at all."""
FIELDS = {
    "numCPUs": "VirtualMachine.Config.CPUCount",
    "memoryMB": "VirtualMachine.Config.Memory",
    "guestId": "VirtualMachine.Config.Settings",
    "flags": "VirtualMachine.Config.Settings",
    "uuid": "VirtualMachine.Config.Settings",
    "cpuAllocation": "VirtualMachine.Config.Resource",
    "memoryAllocation": "VirtualMachine.Config.Resource",
    "extraConfig": "VirtualMachine.Config.AdvancedConfig",
    "vAppConfig": "VApp.InstanceConfig",
}
"""What VirtualMachineConfigSpec's fields ask for, of those that the gateway sets."""
DEVICES = {
    f"VirtualMachine.Config.{name}"
    for name in ("AddExistingDisk", "AddNewDisk", "AddRemoveDevice", "DiskExtend", "EditDevice", "RemoveDisk")
}
"""What `deviceChange` asks for, by what is done with which device."""


def texts(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def methods() -> set[str]:
    """All methods of the vSphere and the Storage Policy API by the names they have on the wire."""
    kinds = [name for name in vars(VmomiSupport)["_managedDefMap"] if name.startswith(("vim.", "pbm."))]
    return {info.wsdlName for kind in kinds for info in VmomiSupport.GetVmodlType(kind)._methodInfo.values()}


def test_every_method_that_is_called_has_its_privileges_in_the_table() -> None:
    known = methods()
    assert METHODS.keys() | FREE <= known
    called = known & set(texts(PACKAGE))
    assert called >= {"CloneVM_Task", "Destroy_Task", "MakeDirectory"}
    assert called - METHODS.keys() - FREE == set(), "say here which privileges they take"
    named = {one.id for one in PRIVILEGES}
    assert {one for name in called & METHODS.keys() for one in METHODS[name]} <= named


def test_every_field_of_a_machine_that_is_set_has_its_privilege_in_the_table() -> None:
    fields = {name for name in FIELDS if hasattr(vim.vm.ConfigSpec(), name)}
    assert fields == FIELDS.keys()
    assert set(FIELDS.values()) <= {one.id for one in PRIVILEGES if one.on is On.FOLDER}


def test_the_table_has_no_privilege_that_nothing_asks_for() -> None:
    asked = set().union(*METHODS.values()) | set(FIELDS.values()) | DEVICES | {"System.Read", "System.View"}
    assert {one.id for one in PRIVILEGES} - asked == set()


@pytest.mark.parametrize("function", CATALOGUE)
def test_every_function_says_what_it_needs_or_that_it_needs_nothing(function: str) -> None:
    named = {name for one in PRIVILEGES for name in one.functions}
    assert (function in named) != (function in WITHOUT)
    own = {one.id for one in PRIVILEGES if function in one.functions}
    assert function in WITHOUT or own >= {"System.Read", "System.View"}


def run(vcenter: SimulatedVCenter, folder: Path, **more: str) -> None:
    """Run the script as an administrator would, with govc on the path."""
    (govc,) = ensure("govc")
    (folder / "govc").unlink(missing_ok=True)
    (folder / "govc").symlink_to(govc)
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    subprocess.run(["sh", SCRIPT], env={**path, **vcenter.govc_environment, **more}, check=True)


def test_the_script_makes_the_roles_of_the_table_and_gives_them(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """Names that the product does not know are refused: the simulator has the product's list."""
    run(vcenter, tmp_path)
    vcenter.govc("role.update", role(On.STORE), "Datastore.Browse", "Datastore.Delete")
    run(
        vcenter,
        tmp_path,
        PRINCIPAL=PRINCIPAL,
        FOLDERS="/DC0/vm/demo/machines\n/DC0/vm/templates",
        TEMPLATES="/DC0/vm/templates/ubuntu-24.04",
        STORES="/DC0/datastore/we ird (1)",
    )
    for on in On:
        assert len(privileges(on)) == len(set(privileges(on)))
        made = set(vcenter.govc("role.ls", role(on)).split())
        assert made == {one.id for one in PRIVILEGES if one.on is on} | SYSTEM, on
    for path, on in {
        "/": On.ROOT,
        "/DC0/vm/demo/machines": On.FOLDER,
        "/DC0/vm/templates": On.FOLDER,
        "/DC0/vm/templates/ubuntu-24.04": On.TEMPLATE,
        "/DC0/datastore/we ird (1)": On.STORE,
    }.items():
        given = vcenter.govc("permissions.ls", "-json", path)  # with those of the parents
        names = {one["roleId"]: one["name"] for one in given["Roles"]}
        own = [one for one in given["Permissions"] if one["principal"] == PRINCIPAL]
        assert role(on) in {names[one["roleId"]] for one in own}
        assert all(one["propagate"] for one in own)


def test_an_account_with_these_roles_and_nothing_else_is_enough(vcenter: SimulatedVCenter) -> None:
    """And with each privilege of a machine's whole life taken away, a create does not begin."""
    everything = set(vcenter.govc("role.ls", "Admin").split())
    table = {one.id for one in PRIVILEGES}
    vcenter.control.deny(*(everything - table - SYSTEM))
    spec: dict[str, Any] = {"customization": "vcsim-linux", "cpuAllocation": {"reservation": 1}}
    with at(vcenter) as ctx:
        assert validate(ctx, **spec).missing_privileges == ()
        create(ctx)
        delete(ctx)
        assert lacking_on_root(ctx.vcenter().session) == []
        assert lacking_anywhere(ctx.vcenter().session) == {}
        needs = {one for on in On for one in needed(on, MACHINE_LIFE, frozenset({When.TEMPLATE}))}
        for privilege in sorted(needs):
            vcenter.control.deny(privilege)
            assert {one.privilege for one in validate(ctx).missing_privileges} == {privilege}


def test_a_plain_vm_is_cloned_under_another_privilege_than_a_template(vcenter: SimulatedVCenter) -> None:
    clone, deploy = "VirtualMachine.Provisioning.Clone", "VirtualMachine.Provisioning.DeployTemplate"
    foreign(vcenter, "golden")
    vcenter.control.deny(clone, deploy)
    with at(vcenter) as ctx:
        of_template = validate(ctx).missing_privileges
        of_vm = validate(ctx, templateVM="demo/machines/golden").missing_privileges
    assert [one.privilege for one in of_template] == [deploy]
    assert [(one.privilege, one.object) for one in of_vm] == [(clone, "DC0/vm/demo/machines/golden")]


def test_vapp_properties_need_a_privilege_of_their_own(vcenter: SimulatedVCenter) -> None:
    vcenter.control.deny("VApp.InstanceConfig")
    with at(vcenter) as ctx:
        assert validate(ctx).missing_privileges == ()
        found = validate(ctx, vapp={"properties": {}}).missing_privileges
    assert [one.privilege for one in found] == ["VApp.InstanceConfig"]
