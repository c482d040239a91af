"""destroy_volume on the simulated vCenter."""

from collections.abc import Callable, Iterator

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.soap import Soap
from support.volumes import (
    INSTALLATION,
    contents,
    create,
    destroy,
    destroying,
    files_of,
    found_store,
    get,
    listing,
    store,
    with_stores,
)
from support.wire import without_config
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.steps import Step
from vsphere_functions.vsphere.in_use import DISKS, chains

FOLDER = f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes/data-1"
DISK = f"{FOLDER}/data-1.vmdk"


@pytest.fixture
def soap(vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(vcenter) as client:
        yield client


def everything(ctx: Context) -> dict[str, bytes | None]:
    """The bytes of every file of the volume."""
    found = found_store(ctx)
    names = contents(ctx)["data-1"]
    return {name: found.files.read(found.folder / "data-1" / name) for name in names}


def detach(soap: Soap, machine: object) -> None:
    """Take the last disk off a machine."""
    change = vim.vm.device.VirtualDeviceSpec(operation="remove", device=soap.disks(machine)[-1])
    soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))  # type: ignore[attr-defined]  # pyVmomi


def off(soap: Soap) -> str:
    soap.attach(soap.clone("holder"), DISK)
    return "holder"


def on(soap: Soap) -> str:
    soap.attach(soap.clone("holder"), DISK)
    soap.wait(soap.find("/DC0/vm/demo/machines/holder").PowerOnVM_Task())
    return "holder"


def suspended(soap: Soap) -> str:
    name = on(soap)
    soap.wait(soap.find(f"/DC0/vm/demo/machines/{name}").SuspendVM_Task())
    return name


def template(soap: Soap) -> str:
    machine = soap.clone("golden")
    soap.attach(machine, DISK)
    machine.MarkAsTemplate()
    return "golden (a template)"


def snapshot(soap: Soap) -> str:
    """Only the snapshot refers to the disk; a real vCenter would not even let it be detached."""
    machine = soap.clone("holder")
    soap.attach(machine, DISK)
    for name in ("first", "second"):
        soap.wait(machine.CreateSnapshot_Task(name=name, memory=False, quiesce=False))
    detach(soap, machine)
    return "holder (in a snapshot)"


def by_uuid_alone(soap: Soap) -> str:
    """The path that the machine knows is another."""
    machine = soap.clone("holder")
    soap.move_disk(DISK, f"{FOLDER}/elsewhere.vmdk")
    soap.attach(machine, f"{FOLDER}/elsewhere.vmdk")
    soap.move_disk(f"{FOLDER}/elsewhere.vmdk", DISK)
    return "holder"


@pytest.mark.parametrize("hold", [off, on, suspended, template, snapshot, by_uuid_alone])
def test_v16_a_volume_in_use_is_not_touched(
    vcenter: SimulatedVCenter, soap: Soap, hold: Callable[[Soap], str]
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx, info={"a": "QQ=="})
        name = hold(soap)
        before = everything(ctx)
        failed = error_of(destroy, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert name in failed.message
        assert name in failed.details[0].candidates
        assert everything(ctx) == before


def test_v16_a_disk_that_a_running_machine_has_locked_is_in_use(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        on(soap)
        vcenter.control.add_fault("QueryVirtualDiskUuid", "FileLocked")
        failed = error_of(destroy, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "holder" in failed.message


def test_v16_a_disk_is_held_by_its_path_alone(vcenter: SimulatedVCenter, soap: Soap) -> None:
    """Neither what was written down nor what the disk says now is the uuid that the machine knows."""
    with with_stores(vcenter) as ctx:
        create(ctx)
        soap.attach(soap.clone("holder"), DISK)
        uuid = "60 00 c2 9a 7d fb d1 5b-d5 b1 9d 8f 2b c1 b0 60"
        soap.content.virtualDiskManager.SetVirtualDiskUuid(DISK, soap.find("/DC0"), uuid)
        found_store(ctx).files.write(found_store(ctx).folder / "data-1" / "volume.json", b"")
        failed = error_of(destroy, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "holder" in failed.message
        assert soap.disk_uuid(DISK) == uuid


def test_the_files_of_a_chain_are_held(vcenter: SimulatedVCenter, soap: Soap) -> None:
    """What a machine's layout says counts, also where no device shows it."""
    with with_stores(vcenter) as ctx:
        create(ctx)
        soap.attach(soap.clone("holder"), DISK)
        rows = ctx.vcenter().scan({"VirtualMachine": DISKS})
        (row,) = (row for row in rows.values() if row["name"] == "holder")
        assert DISK in set(chains(row))
        del row["config.hardware.device"]
        assert DISK in set(chains(row))


def test_v17_a_disk_detached_behind_our_back_is_destroyed(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        machine = soap.clone("holder")
        soap.attach(machine, DISK)
        assert get(ctx).attached_to == ("holder",)
        assert listing(ctx).volumes[0].attached_to == ("holder",)
        assert create(ctx).attached_to == ("holder",)
        detach(soap, machine)
        assert get(ctx).attached_to == ()
        destroy(ctx)
        assert contents(ctx) == {"": []}


class Between:
    """A fence at which something happens after the check and before the first change."""

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens
        self._checks = 0

    def check(self) -> None:
        self._checks += 1
        if self._checks == 1:
            self._happens()

    def confirm(self) -> None:
        """Nothing to ask."""


def test_a_disk_that_is_attached_between_the_check_and_the_delete_gets_its_name_back(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    machine = soap.clone("holder")
    with with_stores(vcenter) as ctx:
        create(ctx)
        before = everything(ctx)
        with with_stores(vcenter, fence=Between(lambda: soap.attach(machine, DISK))) as late:
            failed = error_of(destroy, late)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "in use by holder" in failed.message
        assert everything(ctx) == before


def test_a_vm_that_cannot_be_read_any_more_before_the_delete_gives_the_disk_its_name_back(
    vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        create(ctx, "data-2")
        soap.attach(soap.clone("stranger"), DISK.replace("data-1", "data-2"))
        before = everything(ctx)
        with with_stores(vcenter, fence=Between(lambda: without_config(monkeypatch, "stranger"))) as late:
            failed = error_of(destroy, late)
        assert failed.code is Code.UNAVAILABLE
        assert "'stranger' cannot be read" in failed.message
        assert everything(ctx) == before


def test_a_disk_with_a_snapshot_of_its_own_is_not_destroyed(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        found = found_store(ctx)
        found.files.write(found.folder / "data-1" / "data-1-000001.vmdk", b"# Disk DescriptorFile")
        failed = error_of(destroy, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "data-1-000001.vmdk" in failed.message
        assert len(contents(ctx)["data-1"]) == 4


def test_a_vm_that_cannot_be_read_may_hold_it(
    vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        create(ctx, store="second")
        soap.attach(soap.clone("holder"), DISK)
        before = everything(ctx)
        without_config(monkeypatch, "holder")
        failed = error_of(destroy, ctx)
        assert failed.code in {Code.UNAVAILABLE, Code.FAILED_PRECONDITION}
        assert "holder" in failed.message
        assert everything(ctx) == before


def test_destroying_what_is_not_there_is_fine(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        destroy(ctx)
        create(ctx)
        destroy(ctx)
        destroy(ctx)
        assert error_of(get, ctx).code is Code.NOT_FOUND


def test_v07_the_same_id_in_two_stores_is_two_volumes(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx, info={"a": "QQ=="})
        create(ctx, store="second", info={"a": "Qg=="})
        assert [one.self_link for one in listing(ctx).volumes] == [
            "vsphere-volume://default/default/data-1",
            "vsphere-volume://default/second/data-1",
        ]
        assert get(ctx).info == {"a": "QQ=="}
        destroy(ctx)
        assert get(ctx, store="second").info == {"a": "Qg=="}
        failed = error_of(get, ctx)
        assert failed.code is Code.NOT_FOUND
        assert "second" in failed.message
        assert "second" not in error_of(get, ctx, store="default").message
        destroy(ctx, store="vsphere-volume://default/second")
        assert listing(ctx).volumes == ()


def test_v07_without_a_default_store_the_stores_are_named(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store("one"), store("two", "[LocalDS_0] v")) as ctx:
        for asked in (create, get, destroy):
            failed = error_of(asked, ctx)
            assert failed.code is Code.INVALID_ARGUMENT
            assert failed.details[0].candidates == ("one", "two")


def test_v19_a_volume_with_broken_metadata_is_destroyed(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        found = found_store(ctx)
        found.files.write(found.folder / "data-1" / "volume.json", b'{"v":')
        assert error_of(create, ctx).code is Code.FAILED_PRECONDITION
        destroy(ctx)
        assert contents(ctx) == {"": []}


def test_a_disk_whose_extent_is_gone_is_destroyed(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        soap.wait(
            soap.content.fileManager.DeleteDatastoreFile_Task(f"{FOLDER}/data-1-flat.vmdk", soap.find("/DC0"))
        )
        files_of(ctx).write(found_store(ctx).folder / "data-1" / "data-1-flat.vmdk", b"")
        destroy(ctx)
        assert contents(ctx) == {"": []}


def test_files_of_others_stay_and_their_folder_with_them(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        found = found_store(ctx)
        found.files.write(found.folder / "data-1" / "notes.txt", b"mine")
        found.files.write(found.folder / "strange" / "notes.txt", b"mine")
        destroy(ctx)
        destroy(ctx, "strange")
        assert contents(ctx) == {"": [], "data-1": ["notes.txt"], "strange": ["notes.txt"]}
        assert error_of(get, ctx).code is Code.NOT_FOUND


def test_a_volume_whose_disk_was_moved_is_followed_and_left_alone(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    moved = "[LocalDS_0] holder-data/holder.vmdk"
    with with_stores(vcenter) as ctx:
        create(ctx)
        soap.make_folder("[LocalDS_0] holder-data")
        soap.move_disk(DISK, moved)
        soap.attach(soap.clone("holder"), moved)
        seen = get(ctx)
        assert (seen.state, seen.moved_to, seen.attached_to) == ("moved", moved, ("holder",))
        for asked in (create, destroy):
            failed = error_of(asked, ctx)
            assert failed.code is Code.FAILED_PRECONDITION
        assert contents(ctx)["data-1"] == ["volume.json"]
        assert soap.disk_uuid(moved)


def test_vics_own_volumes_are_read_and_destroyed(vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(vcenter) as ctx:
        found = found_store(ctx)
        found.files.make_folder(found.folder / "data-1", parents=True)
        soap.create_disk(DISK)
        keys = {"DockerMetaData": b'{"Driver":"vsphere"}', "a+b&c d": b"\x00\xff"}
        for key, value in keys.items():
            found.files.write(found.folder / "data-1" / "imageMetadata" / key, value)
        seen = get(ctx)
        assert (seen.state, seen.capacity_kb) == ("ready", None)
        assert seen.info == {"DockerMetaData": "eyJEcml2ZXIiOiJ2c3BoZXJlIn0=", "a+b&c d": "AP8="}
        assert listing(ctx).volumes == (seen,)
        assert error_of(create, ctx).code is Code.ALREADY_EXISTS
        destroy(ctx)
        assert contents(ctx) == {"": []}


def test_a_self_link_of_another_vcenter_is_refused(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        shared_vcenter.control.reset_calls()
        link = "vsphere-volume://another/default/data-1"
        for asked in (get, destroy):
            assert error_of(asked, ctx, None, selfLink=link).code is Code.INVALID_ARGUMENT
        assert shared_vcenter.control.calls().total() == 0


def test_a_destroy_says_what_it_does(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        taken: list[Step] = list(destroying(ctx))
    phases = list(dict.fromkeys(step.phase for step in taken))
    assert phases == ["move", "delete_disk", "delete_file", "destroy"]
    assert taken[-1].percent == 100


def test_v06_two_workers_see_each_others_volumes_at_once(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as one, with_stores(vcenter) as other:
        for _ in range(3):
            made = create(one)
            assert get(other) == made
            assert listing(other).volumes == (made,)
            destroy(other)
            assert error_of(get, one).code is Code.NOT_FOUND
            assert listing(one).volumes == ()
