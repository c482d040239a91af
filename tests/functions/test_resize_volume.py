"""resize_volume on the simulated vCenter."""

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any

import pytest

from support import machines
from support.gateway import error_of
from support.proxy import Proxy
from support.soap import Soap
from support.volumes import (
    GIB,
    INSTALLATION,
    contents,
    create,
    duplicate,
    files_of,
    found_store,
    get,
    listing,
    resize,
    resizing,
    store,
    with_stores,
)
from support.wire import recorded, texts_in, without_config
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.claims_file import Claim

FOLDER = f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes"
WORKER = "/DC0/vm/demo/machines/worker-1"
STEPS = range(6)
"""How many steps are taken before the end comes; the last of these is past the end."""


@pytest.fixture(scope="module")
def soap(shared_vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(shared_vcenter) as client:
        yield client


def disk(volume_id: str) -> str:
    """Where a volume's disk lies."""
    return f"{FOLDER}/{volume_id}/{volume_id}.vmdk"


def real_size(ctx: Context, volume_id: str) -> int | None:
    """What vCenter says of the disk, in KiB."""
    return files_of(ctx).capacity_kb(found_store(ctx).folder / volume_id / f"{volume_id}.vmdk")


def whole(ctx: Context, volume_id: str) -> list[str]:
    """What lies in a volume's folder when it is whole and nothing is left over."""
    assert contents(ctx)[volume_id] == [f"{volume_id}-flat.vmdk", f"{volume_id}.vmdk", "volume.json"]
    return contents(ctx)[volume_id]


def test_the_disk_grows_and_the_volume_says_so(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter) as other:
        made = create(ctx, "grown", info={"a": "QQ=="})
        uuid = soap.disk_uuid(disk("grown"))
        grown = resize(ctx, 3 * GIB - 1, "grown")
        assert grown == made.model_copy(update={"capacity_kb": 3 * GIB})
        assert get(ctx, "grown") == grown
        assert grown in listing(ctx).volumes
        assert real_size(ctx, "grown") == 3 * GIB
        assert soap.disk_uuid(disk("grown")) == uuid
        whole(ctx, "grown")
        assert create(other, "grown", info={"a": "QQ=="}, capacityKB=3 * GIB) == grown
        assert error_of(create, other, "grown", info={"a": "QQ=="}).code is Code.ALREADY_EXISTS


def test_a_create_that_is_delivered_again_after_a_resize_knows_its_volume(
    shared_vcenter: SimulatedVCenter,
) -> None:
    """Its worker may have died between the volume and the result; the resize came in between."""
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter) as later:
        create(ctx, "redelivered")
        grown = resize(later, 2 * GIB, "redelivered")
        assert create(ctx, "redelivered") == grown
        assert error_of(create, ctx, "redelivered", info={"a": "QQ=="}).code is Code.ALREADY_EXISTS


def test_the_same_size_is_fine_and_a_smaller_one_is_refused(
    shared_vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_stores(shared_vcenter) as ctx:
        made = create(ctx, "same", capacityKB=2 * GIB)
        bodies = recorded(monkeypatch)
        assert resize(ctx, 2 * GIB, "same") == made
        failed = error_of(resize, ctx, GIB, "same")
        assert failed.code is Code.INVALID_ARGUMENT
        assert failed.details[0].field == "capacityKB"
        assert str(2 * GIB) in failed.details[0].reason
        assert not [body for body in bodies if body and b"volume.json" in body and b"Move" in body]
        assert not [body for body in bodies if body and b"ExtendVirtualDisk_Task" in body]


@pytest.mark.parametrize(
    "data",
    [
        {"capacity_kb": 3 * GIB, "volume_id": "data-1"},
        {"capacity_kb": GIB, "store": "elsewhere"},
        {"capacity_kb": 2**63},
        {"capacity_kb": 0},
        {"capacity_kb": GIB, "volume_id": None, "selfLink": "vsphere-volume://another/default/data-1"},
    ],
)
def test_what_is_refused_makes_no_call(shared_vcenter: SimulatedVCenter, data: dict[str, Any]) -> None:
    with with_stores(shared_vcenter, store(largest_kb=2 * GIB)) as ctx:
        shared_vcenter.control.reset_calls()
        assert error_of(resize, ctx, **data).code is Code.INVALID_ARGUMENT
        assert shared_vcenter.control.calls().total() == 0


def test_growth_keeps_to_the_limits_of_the_store(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(total_kb=4 * GIB, volumes=2)) as ctx:
        create(ctx)
        create(ctx, "data-2", diskFormat="thick")
        assert error_of(resize, ctx, 3 * GIB + 1).code is Code.RESOURCE_EXHAUSTED
        assert real_size(ctx, "data-1") == GIB
        assert resize(ctx, 3 * GIB).capacity_kb == 3 * GIB
    with with_stores(vcenter) as ctx:
        failed = error_of(resize, ctx, 62 * 1024**3, "data-2")
        assert failed.code is Code.RESOURCE_EXHAUSTED
        assert "left" in failed.message


@pytest.mark.parametrize(("kind", "zeroed"), [("thin", "false"), ("eagerZeroedThick", "true")])
def test_what_is_new_is_allocated_like_the_rest(
    shared_vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch, kind: str, zeroed: str
) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, f"format-{kind}", capacityKB=1024, diskFormat=kind)
        bodies = recorded(monkeypatch)
        resize(ctx, 2048, f"format-{kind}")
    (sent,) = [body for body in bodies if body and b"ExtendVirtualDisk_Task" in body]
    assert texts_in(sent, "eagerZero") == [zeroed]


def attached(ctx: Context, soap: Soap, volume_id: str = "data-1") -> Any:
    """A machine of ours, running, that has the volume."""
    create(ctx, volume_id)
    machines.create(ctx)
    machine = soap.find(WORKER)
    soap.attach(machine, disk(volume_id))
    return machine


def test_the_disk_of_a_running_machine_grows_on_the_machine(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Soap(vcenter) as soap, with_stores(vcenter) as ctx:
        machine = attached(ctx, soap)
        before = soap.disks(machine)
        bodies = recorded(monkeypatch)
        vcenter.control.add_fault("QueryVirtualDiskUuid", "FileLocked")  # as a machine that runs may hold it
        grown = resize(ctx, 4 * GIB)
        vcenter.control.clear_faults()
        assert (grown.capacity_kb, grown.attached_to) == (4 * GIB, ("worker-1",))
        assert get(ctx) == grown
        after = soap.disks(machine)
        assert [one.key for one in after] == [one.key for one in before]
        assert [one.capacityInKB for one in after] == [before[0].capacityInKB, 4 * GIB]
        assert after[1].backing.diskMode == "independent_persistent"
        assert after[1].backing.uuid == before[1].backing.uuid
        assert real_size(ctx, "data-1") == 4 * GIB
        (sent,) = [body for body in bodies if body and b"ReconfigVM_Task" in body]
        assert texts_in(sent, "changeVersion")[0]
        assert not [body for body in bodies if body and b"ExtendVirtualDisk_Task" in body]
        assert error_of(resize, ctx, GIB).code is Code.INVALID_ARGUMENT
        machines.delete(ctx)
        assert get(ctx).attached_to == ()
        assert real_size(ctx, "data-1") == 4 * GIB


def foreign(soap: Soap, volume_id: str) -> str:
    soap.attach(soap.clone(f"{volume_id}-holder"), disk(volume_id))
    return f"{volume_id}-holder, which is no machine of ours"


def template(soap: Soap, volume_id: str) -> str:
    machine = soap.clone(f"{volume_id}-golden")
    soap.attach(machine, disk(volume_id))
    machine.MarkAsTemplate()
    return f"{volume_id}-golden (a template)"


def two(soap: Soap, volume_id: str) -> str:
    for name in ("a", "b"):
        soap.attach(soap.clone(f"{volume_id}-{name}"), disk(volume_id))
    return f"{volume_id}-a, {volume_id}-b"


@pytest.mark.parametrize("hold", [foreign, template, two])
def test_a_volume_that_others_hold_does_not_grow(
    shared_vcenter: SimulatedVCenter, soap: Soap, hold: Callable[[Soap, str], str]
) -> None:
    volume_id = f"held-{hold.__name__}"
    with with_stores(shared_vcenter) as ctx:
        create(ctx, volume_id)
        name = hold(soap, volume_id)
        failed = error_of(resize, ctx, 2 * GIB, volume_id)
        assert failed.code is Code.FAILED_PRECONDITION
        assert name in failed.message
        assert real_size(ctx, volume_id) == GIB
        assert resize(ctx, GIB, volume_id).capacity_kb == GIB


def test_a_machine_with_snapshots_keeps_its_disks_as_they_are(vcenter: SimulatedVCenter) -> None:
    with Soap(vcenter) as soap, with_stores(vcenter) as ctx:
        create(ctx)
        machines.create(ctx)
        machine = soap.find(WORKER)
        soap.wait(machine.CreateSnapshot_Task(name="before", memory=False, quiesce=False))
        soap.attach(machine, disk("data-1"))
        failed = error_of(resize, ctx, 2 * GIB)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "worker-1, which has snapshots" in failed.message
        soap.wait(machine.CreateSnapshot_Task(name="after", memory=False, quiesce=False))
        failed = error_of(resize, ctx, 2 * GIB)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "worker-1 (in a snapshot)" in failed.message
        assert real_size(ctx, "data-1") == GIB


def test_a_disk_with_a_delta_does_not_grow(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "delta")
        files_of(ctx).write(found_store(ctx).folder / "delta" / "delta-000001.vmdk", b"# Disk DescriptorFile")
        failed = error_of(resize, ctx, 2 * GIB, "delta")
        assert failed.code is Code.FAILED_PRECONDITION
        assert "delta-000001.vmdk" in failed.message


def test_a_vm_that_cannot_be_read_may_have_it(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        machines.create(ctx)
        without_config(monkeypatch, "worker-1")
        for asked in (lambda: resize(ctx, 2 * GIB), lambda: duplicate(ctx)):
            failed = error_of(asked)
            assert failed.code is Code.UNAVAILABLE
            assert "worker-1" in failed.message
        assert real_size(ctx, "data-1") == GIB
        assert contents(ctx).keys() == {"", "data-1"}


def test_what_is_no_whole_volume_does_not_grow(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(shared_vcenter) as ctx:
        assert error_of(resize, ctx, 2 * GIB, "not-there").code is Code.NOT_FOUND
        files, folder = files_of(ctx), found_store(ctx).folder
        for name in ("bare", "broken", "of-vic"):
            files.make_folder(folder / name, parents=True)
            soap.create_disk(disk(name))
        files.write(folder / "broken" / "volume.json", b"{")
        files.write(folder / "of-vic" / "imageMetadata" / "DockerMetaData", b"{}")
        for name, why in (("bare", "without metadata"), ("broken", "metadata"), ("of-vic", "VIC")):
            failed = error_of(resize, ctx, 2 * GIB, name)
            assert failed.code is Code.FAILED_PRECONDITION
            assert why in failed.message
            assert real_size(ctx, name) == GIB


def killed(steps: Generator[Any, None, Any], count: int) -> bool:
    """Take some steps and close it as a dying process would; say whether there were more to come."""
    taken = len(list(islice(steps, count)))
    steps.close()
    return taken == count


@pytest.mark.parametrize("count", STEPS)
def test_a_resize_that_was_killed_is_finished_by_the_next(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    volume_id = f"killed-{count}"
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter) as other:
        create(ctx, volume_id)
        assert killed(resizing(ctx, 2 * GIB, volume_id), count) == (count < STEPS[-1])
        between = get(ctx, volume_id)
        assert between.state == "ready"
        assert between.capacity_kb in ([GIB], [GIB], [GIB], [GIB, 2 * GIB], [2 * GIB], [2 * GIB])[count]
        assert resize(other, 2 * GIB, volume_id) == get(ctx, volume_id)
        assert get(ctx, volume_id).capacity_kb == real_size(ctx, volume_id) == 2 * GIB
        whole(ctx, volume_id)


def test_a_disk_that_has_grown_already_is_not_grown_again(
    shared_vcenter: SimulatedVCenter, soap: Soap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers refuse to grow a disk to the size that it has."""
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "ahead")
        manager = soap.content.virtualDiskManager
        soap.wait(manager.ExtendVirtualDisk_Task(disk("ahead"), soap.find("/DC0"), 4 * GIB, False))
        failed = error_of(resize, ctx, 2 * GIB, "ahead")
        assert failed.code is Code.INVALID_ARGUMENT
        assert str(4 * GIB) in failed.details[0].reason
        bodies = recorded(monkeypatch)
        assert resize(ctx, 4 * GIB, "ahead").capacity_kb == 4 * GIB
        assert not [body for body in bodies if body and b"ExtendVirtualDisk_Task" in body]
        assert get(ctx, "ahead").capacity_kb == 4 * GIB


def test_metadata_that_cannot_be_replaced_stays_whole(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        vcenter.control.add_fault("MoveDatastoreFile_Task", "CannotAccessFile", scope="task", count=1)
        assert error_of(resize, ctx, 2 * GIB).code is Code.UNAVAILABLE
        assert get(ctx).capacity_kb == GIB
        whole(ctx, "data-1")
        assert resize(ctx, 2 * GIB).capacity_kb == 2 * GIB
        whole(ctx, "data-1")


def test_what_interrupted_tries_have_left_is_removed(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "littered")
        files_of(ctx).write(found_store(ctx).folder / "littered" / f"_{'0' * 32}.json", b"{}")
        resize(ctx, 2 * GIB, "littered")
        whole(ctx, "littered")


@pytest.mark.parametrize("call", ["ExtendVirtualDisk_Task", "MoveDatastoreFile_Task"])
def test_a_lost_reply_is_made_good_by_the_next_try(vcenter: SimulatedVCenter, call: str) -> None:
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        with_stores(vcenter, port=proxy.port) as ctx,
    ):
        create(ctx)
        proxy.drop_reply(f"<{call} ")
        assert error_of(resize, ctx, 2 * GIB).code is Code.UNAVAILABLE
        assert proxy.dropped == 1
        assert resize(ctx, 2 * GIB).capacity_kb == real_size(ctx, "data-1") == 2 * GIB
        whole(ctx, "data-1")


def test_a_claim_that_was_left_is_gone_before_the_metadata_are_replaced(vcenter: SimulatedVCenter) -> None:
    """A volume with a claim and no metadata is one that was never made, to be swept."""
    with with_stores(vcenter) as ctx:
        create(ctx)
        claim = Claim("theirs", GIB, "x", "2020-01-01T00:00:00+00:00")
        files_of(ctx).write(found_store(ctx).folder / "data-1" / "claim.json", claim.render())
        vcenter.control.add_fault("MoveDatastoreFile_Task", "CannotAccessFile", scope="task", count=1)
        assert error_of(resize, ctx, 2 * GIB).code is Code.UNAVAILABLE
        assert "claim.json" not in contents(ctx)["data-1"]
        assert resize(ctx, 2 * GIB).capacity_kb == 2 * GIB
