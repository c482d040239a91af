"""The simulator does what the tests of the functions rely on."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyVmomi import vim, vmodl

from support.soap import Soap
from vsphere_functions.local.vcenter import SimulatedVCenter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

TEMPLATE = "/DC0/vm/templates/ubuntu-24.04"


@pytest.fixture
def soap(vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(vcenter) as client:
        yield client


def test_both_datacenters_have_the_same_names_in_them(vcenter: SimulatedVCenter) -> None:
    def below(datacenter: str) -> list[str]:
        paths = vcenter.govc("find", f"/{datacenter}").splitlines()
        # An uplink group ends in a number that the server counts up.
        return sorted(path.removeprefix(f"/{datacenter}") for path in paths if "DVUplinks" not in path)

    assert below("DC0") == below("DC1")
    assert {
        "/vm/templates/ubuntu-24.04",
        "/vm/demo/machines/a/b",
        "/host/DC0_H0",
        "/host/DC0_C0/Resources/DC0_C0_RP1",
        "/datastore/LocalDS_0",
        "/datastore/we ird (1)",
        "/datastore/DC0_POD0/PodDS_0",
        "/network/VM Network",
        "/network/DC0_DVPG0",
    } <= set(below("DC0"))


def test_the_template_is_one_and_no_other_machine_is_there(soap: Soap) -> None:
    template = soap.find(TEMPLATE)
    assert soap.read(template, "config.template", "config.guestId") == {
        "config.template": True,
        "config.guestId": "ubuntu64Guest",
    }
    assert [disk.capacityInKB for disk in soap.disks(template)] == [10 << 20]


def test_a_fleet_has_names_and_marks() -> None:
    with (
        SimulatedVCenter(vms=20, marks={"vspherefunctions.owner": "someone"}) as vcenter,
        Soap(vcenter) as soap,
    ):
        names = [
            line.rpartition("/")[2]
            for line in vcenter.govc("find", "/DC0/vm/fleet", "-type", "m").splitlines()
        ]
        assert sorted(names) == [f"fleet-{number:05}" for number in range(1, 21)]
        machine = soap.find("/DC0/vm/fleet/fleet-00007")
        path = 'config.extraConfig["vspherefunctions.owner"]'
        assert soap.read(machine, path)[path].value == "someone"


def test_a_wrong_password_is_refused(vcenter: SimulatedVCenter) -> None:
    vcenter.password = "wrong"
    with pytest.raises(vim.fault.InvalidLogin), Soap(vcenter):
        pass
    assert vcenter.control.sessions() == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_the_certificate_verifies_strictly_and_only_with_its_file(host: str) -> None:
    with SimulatedVCenter(host=host) as vcenter:
        context = vcenter.ssl_context
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        with Soap(vcenter, context=context) as soap:
            assert soap.find("/DC0") is not None
        stranger = ssl.create_default_context()
        with (
            socket.create_connection((host, vcenter.port), timeout=30) as connection,
            pytest.raises(ssl.SSLCertVerificationError),
        ):
            stranger.wrap_socket(connection, server_hostname=host)


def test_a_clone_keeps_uuids_sizes_and_mark_and_gets_disks_of_its_own(soap: Soap) -> None:
    uuid, instance = "9eea7b45-2831-473e-bff9-999cd2451a08", "04a57347-f277-47b8-9b3a-7859bb121d97"
    mark = vim.option.OptionValue(key="vspherefunctions.owner", value="someone")
    first = soap.clone("first", uuid=uuid, instanceUuid=instance, numCPUs=3, memoryMB=512, extraConfig=[mark])
    second = soap.clone("second")
    assert soap.read(first, "config.uuid", "config.instanceUuid", "config.hardware.numCPU") == {
        "config.uuid": uuid,
        "config.instanceUuid": instance,
        "config.hardware.numCPU": 3,
    }
    uuids = {disk.backing.uuid for machine in (first, second) for disk in soap.disks(machine)}
    assert len(uuids) == 2
    assert all(uuids)


def test_a_clone_does_not_copy_the_extra_config_of_its_source(soap: Soap) -> None:
    source = soap.clone("source", extraConfig=[vim.option.OptionValue(key="secret", value="x")])
    copy = soap.clone("copy", source=source)
    assert soap.read(copy, 'config.extraConfig["secret"]') == {}


def test_a_search_by_uuid_finds_the_clone_or_nothing(soap: Soap) -> None:
    instance = "04a57347-f277-47b8-9b3a-7859bb121d97"
    search = soap.content.searchIndex
    assert list(search.FindAllByUuid(None, instance, True, True)) == []
    clone = soap.clone("clone", instanceUuid=instance)
    assert list(search.FindAllByUuid(None, instance, True, True)) == [clone]


def test_a_disk_keeps_its_uuid_when_it_moves_and_when_it_is_attached(soap: Soap) -> None:
    soap.create_disk("[LocalDS_0] a.vmdk")
    uuid = soap.disk_uuid("[LocalDS_0] a.vmdk")
    soap.move_disk("[LocalDS_0] a.vmdk", "[we ird (1)] b.vmdk")
    assert soap.disk_uuid("[we ird (1)] b.vmdk") == uuid
    machine = soap.clone("machine")
    soap.attach(machine, "[we ird (1)] b.vmdk")
    attached = soap.disks(machine)[-1]
    assert attached.backing.uuid.replace("-", "") == uuid.replace(" ", "").replace("-", "")
    assert attached.capacityInKB == 1 << 20


def test_a_disk_keeps_its_uuid_when_its_folder_moves(soap: Soap) -> None:
    soap.make_folder("[LocalDS_0] one")
    soap.create_disk("[LocalDS_0] one/a.vmdk")
    uuid = soap.disk_uuid("[LocalDS_0] one/a.vmdk")
    soap.move_file("[LocalDS_0] one", "[LocalDS_0] two")
    assert soap.disk_uuid("[LocalDS_0] two/a.vmdk") == uuid


def test_a_machines_own_disk_keeps_its_uuid_when_it_is_read_as_a_file(soap: Soap) -> None:
    (disk,) = soap.disks(soap.clone("machine"))
    assert disk.backing.uuid.replace("-", "") == soap.disk_uuid(disk.backing.fileName).translate(
        {32: "", 45: ""}
    )


def test_tags_policies_and_first_class_disks_answer(govc: Callable[..., Any]) -> None:
    govc("tags.category.create", "-m", "owner")
    govc("tags.create", "-c", "owner", "me")
    assert "me" in govc("tags.ls")
    assert "vSAN Default Storage Policy" in govc("storage.policy.ls")
    store = ("-dc", "DC0", "-ds", "/DC0/datastore/LocalDS_0")
    govc("disk.create", *store, "-size", "1G", "first-class")
    assert "first-class" in govc("disk.ls", *store)


def test_destroying_a_machine_deletes_the_disks_attached_to_it(soap: Soap) -> None:
    soap.create_disk("[LocalDS_0] a.vmdk")
    machine = soap.clone("machine")
    soap.attach(machine, "[LocalDS_0] a.vmdk")
    soap.wait(machine.Destroy_Task())
    with pytest.raises(vim.fault.FileNotFound):
        soap.disk_uuid("[LocalDS_0] a.vmdk")


def test_machines_are_destroyed_while_datastores_are_searched(vcenter: SimulatedVCenter, soap: Soap) -> None:
    vcenter.control.delay(DeleteVirtualDisk=50)
    machines = [soap.clone(f"doomed-{number}") for number in range(6)]
    browser = soap.read(soap.find("/DC0/datastore/LocalDS_0"), "browser")["browser"]
    everything, tasks = vim.host.DatastoreBrowser.SearchSpec(matchPattern=["*"]), []
    for machine in machines:
        tasks += [machine.Destroy_Task(), browser.SearchDatastoreSubFolders_Task("[LocalDS_0]", everything)]
    for task in tasks:
        soap.wait(task)


def test_a_field_of_a_machine_that_is_gone_is_refused_and_blocks_nobody(soap: Soap) -> None:
    fields = soap.content.customFieldsManager
    key = fields.AddCustomFieldDef(name="note", moType=vim.VirtualMachine).key
    gone, there = soap.clone("gone"), soap.clone("there")
    soap.wait(gone.Destroy_Task())
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        fields.SetField(entity=gone, key=key, value="late")
    fields.SetField(entity=there, key=key, value="kept")
    assert [each.value for each in soap.read(there, "customValue")["customValue"]] == ["kept"]


def test_making_a_folder_twice_is_refused(soap: Soap) -> None:
    soap.make_folder("[LocalDS_0] claimed")
    with pytest.raises(vim.fault.FileAlreadyExists):
        soap.make_folder("[LocalDS_0] claimed")


def test_a_delayed_clone_does_not_block_reads_of_its_template(vcenter: SimulatedVCenter, soap: Soap) -> None:
    vcenter.control.delay(CloneVm=400)
    began = time.monotonic()
    task = soap.start_clone("slow")
    soap.read(soap.find(TEMPLATE), "name")
    assert time.monotonic() - began < 0.4
    assert soap.read(task, "info.state")["info.state"] == "running"
    soap.wait(task)
    assert time.monotonic() - began >= 0.4


def test_a_call_can_be_delayed_by_its_own_name(vcenter: SimulatedVCenter, soap: Soap) -> None:
    vcenter.control.delay(FindByInventoryPath=200)
    began = time.monotonic()
    soap.find("/DC0")
    assert time.monotonic() - began >= 0.2


def test_it_ends_when_its_standard_input_does_and_leaves_no_file(vcenter: SimulatedVCenter) -> None:
    home = vcenter.home
    assert home is not None
    assert home.is_dir()
    vcenter.stop()
    assert not home.exists()
    assert not Path(f"/proc/{vcenter.pid}").exists()


def test_govc_reads_json_and_says_what_fails(govc: Callable[..., Any]) -> None:
    assert govc("vm.info", "-json", TEMPLATE)["virtualMachines"][0]["name"] == "ubuntu-24.04"
    with pytest.raises(RuntimeError, match="nothing-here"):
        govc("vm.power", "-on", "nothing-here")
