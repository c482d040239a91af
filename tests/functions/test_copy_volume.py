"""copy_volume on the simulated vCenter."""

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
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
    creating,
    destroy,
    duplicate,
    duplicating,
    files_of,
    found_store,
    get,
    listing,
    resize,
    store,
    with_stores,
)
from support.wire import recorded, texts_in
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import CopyVolumeRequest, Volume
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.volume.copy_volume import undo_copy_volume

FOLDER = f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes"
WORKER = "/DC0/vm/demo/machines/worker-1"
STEPS = range(13)
"""How many steps are taken before the end comes; the last of these is past the end."""


@pytest.fixture(scope="module")
def soap(shared_vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(shared_vcenter) as client:
        yield client


def later() -> datetime:
    return datetime.now(UTC) + timedelta(hours=2)


def disk(volume_id: str) -> str:
    """Where a volume's disk lies."""
    return f"{FOLDER}/{volume_id}/{volume_id}.vmdk"


def data(ctx: Context, volume_id: str, name: str = "default") -> bytes | None:
    """What stands on a volume."""
    return files_of(ctx, name).read(found_store(ctx, name).folder / volume_id / f"{volume_id}-flat.vmdk")


def filled(ctx: Context, volume_id: str, **more: Any) -> bytes:
    """A volume with something on it."""
    create(ctx, volume_id, **more)
    body = f"what stands on {volume_id}".encode()
    files_of(ctx).write(found_store(ctx).folder / volume_id / f"{volume_id}-flat.vmdk", body)
    return body


def whole(ctx: Context, volume_id: str, name: str = "default") -> None:
    """A volume stands, and nothing else is in its folder."""
    assert get(ctx, volume_id, store=name).state == "ready"
    files = [f"{volume_id}-flat.vmdk", f"{volume_id}.vmdk", "volume.json"]
    assert contents(ctx, name)[volume_id] == files


def test_a_copy_has_the_bytes_the_size_and_the_info_and_a_disk_of_its_own(
    shared_vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(shared_vcenter) as ctx:
        body = filled(ctx, "first", info={"a": "QQ=="}, capacityKB=2 * GIB)
        source, uuid = get(ctx, "first"), soap.disk_uuid(disk("first"))
        made = duplicate(ctx, "first-copy", "first")
        assert (made.tag, made.capacity_kb, made.info) == ("first-copy", 2 * GIB, {"a": "QQ=="})
        assert get(ctx, "first-copy") == made
        assert data(ctx, "first-copy") == data(ctx, "first") == body
        assert soap.disk_uuid(disk("first-copy")) != uuid
        assert (get(ctx, "first"), soap.disk_uuid(disk("first"))) == (source, uuid)
        whole(ctx, "first")
        whole(ctx, "first-copy")


def test_a_copy_goes_to_another_store_and_to_another_datacenter(vcenter: SimulatedVCenter) -> None:
    stores = (store(), store("second", "[LocalDS_0] other"), store("far", "[LocalDS_0] far", "DC1"))
    with with_stores(vcenter, *stores) as ctx:
        body = filled(ctx, "data-1", info={"a": "QQ=="})
        for name in ("second", "far"):
            made = duplicate(ctx, "data-1", toStore=name)
            assert made.self_link == f"vsphere-volume://default/{name}/data-1"
            assert data(ctx, "data-1", name) == body
            whole(ctx, "data-1", name)
        far = f"far/VIC/{INSTALLATION}/volumes/data-1"
        assert "data-1.vmdk" in vcenter.govc("datastore.ls", "-dc", "DC1", "-ds", "LocalDS_0", far)
        link = "vsphere-volume://default/far/data-1"
        back = duplicate(ctx, "data-2", None, selfLink=link, toStore="vsphere-volume://default/second")
        assert back.self_link == "vsphere-volume://default/second/data-2"
        assert data(ctx, "data-2", "second") == body


def test_vcenter_is_given_no_spec_for_the_copy(
    shared_vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product does not implement one."""
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "plain", diskFormat="thick", capacityKB=1024)
        bodies = recorded(monkeypatch)
        duplicate(ctx, "plain-copy", "plain")
    (sent,) = [body for body in bodies if body and b"CopyVirtualDisk_Task" in body]
    assert texts_in(sent, "destSpec") == []
    assert texts_in(sent, "force") == ["false"]


def test_the_same_copy_again_is_the_same_and_any_other_volume_stays(
    shared_vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter) as other:
        filled(ctx, "again")
        made = duplicate(ctx, "again-copy", "again")
        uuid = soap.disk_uuid(disk("again-copy"))
        assert duplicate(ctx, "again-copy", "again") == duplicate(other, "again-copy", "again") == made
        assert soap.disk_uuid(disk("again-copy")) == uuid
        create(ctx, "empty")  # of the same size and info, and without what stands on the other
        failed = error_of(duplicate, ctx, "empty", "again")
        assert failed.code is Code.ALREADY_EXISTS
        assert "no copy" in failed.message
        assert data(ctx, "empty") == b""
        assert create(ctx, "again-copy") == made
        resize(ctx, 2 * GIB, "again")
        assert duplicate(ctx, "again-copy", "again") == made
        failed = error_of(duplicate, other, "again-copy", "again")
        assert failed.code is Code.ALREADY_EXISTS
        assert "another size" in failed.message


@pytest.mark.parametrize(
    "asked",
    [
        {"to_id": "data-1"},
        {"to_id": "data-1", "toStore": "vsphere-volume://default/default"},
        {"toStore": "elsewhere"},
        {"store": "elsewhere"},
        {"toStore": "vsphere-volume://another/default"},
        {"to_id": "../x"},
    ],
)
def test_what_is_refused_makes_no_call(shared_vcenter: SimulatedVCenter, asked: dict[str, Any]) -> None:
    with with_stores(shared_vcenter) as ctx:
        shared_vcenter.control.reset_calls()
        assert error_of(duplicate, ctx, **asked).code is Code.INVALID_ARGUMENT
        assert shared_vcenter.control.calls().total() == 0


def test_only_whole_volumes_are_copied(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    with with_stores(shared_vcenter) as ctx:
        assert error_of(duplicate, ctx, "x", "not-there").code is Code.NOT_FOUND
        files, folder = files_of(ctx), found_store(ctx).folder
        files.make_folder(folder / "bare", parents=True)
        soap.create_disk(disk("bare"))
        create(ctx, "snapped")
        files.write(folder / "snapped" / "snapped-000001.vmdk", b"# Disk DescriptorFile")
        for name in ("bare", "snapped"):
            assert error_of(duplicate, ctx, "x", name).code is Code.FAILED_PRECONDITION
        began = creating(ctx, "young")
        assert [step.phase for step in islice(began, 3)][-1] == "claim"
        began.close()
        with with_stores(shared_vcenter) as other:
            assert error_of(duplicate, other, "x", "young").code is Code.ABORTED
        assert "x" not in contents(ctx)


def test_a_volume_of_vics_becomes_one_of_ours(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    """It keeps no size; vCenter tells that of the disk."""
    with with_stores(shared_vcenter) as ctx:
        files, folder = files_of(ctx), found_store(ctx).folder
        files.make_folder(folder / "of-vic", parents=True)
        soap.create_disk(disk("of-vic"), kib=3 * GIB)
        files.write(folder / "of-vic" / "imageMetadata" / "DockerMetaData", b"{}")
        made = duplicate(ctx, "ours", "of-vic")
        assert (made.capacity_kb, made.info) == (3 * GIB, {"DockerMetaData": "e30="})
        whole(ctx, "ours")
        assert resize(ctx, 4 * GIB, "ours").capacity_kb == 4 * GIB


def test_what_a_machine_may_write_to_is_not_copied_and_what_is_off_is(vcenter: SimulatedVCenter) -> None:
    with Soap(vcenter) as soap, with_stores(vcenter) as ctx:
        body = filled(ctx, "data-1")
        machines.create(ctx)
        machine = soap.find(WORKER)
        soap.attach(machine, disk("data-1"))
        vcenter.control.add_fault("QueryVirtualDiskUuid", "FileLocked")  # as a machine that runs may hold it
        for state, change in (("poweredOn", machine.SuspendVM_Task), ("suspended", machine.PowerOffVM_Task)):
            failed = error_of(duplicate, ctx)
            assert failed.code is Code.FAILED_PRECONDITION
            assert failed.details[0].candidates == (f"worker-1 ({state})",)
            assert contents(ctx).keys() == {"", "data-1"}
            soap.wait(change())
        vcenter.control.clear_faults()
        assert vcenter.control.calls()["CopyVirtualDisk_Task"] == 0
        made = duplicate(ctx)
        assert (data(ctx, "data-2"), made.attached_to) == (body, ())
        soap.wait(machine.PowerOnVM_Task())
        assert duplicate(ctx) == made


def test_a_machine_that_starts_meanwhile_spoils_the_copy_and_nothing_is_left(
    vcenter: SimulatedVCenter,
) -> None:
    with Soap(vcenter) as soap, with_stores(vcenter) as ctx:
        create(ctx)
        machine = soap.clone("holder")
        soap.attach(machine, disk("data-1"))
        steps = duplicating(ctx)
        for step in steps:
            if step.message.startswith("copied"):
                break
        soap.wait(machine.PowerOnVM_Task())
        with pytest.raises(CallError) as caught:
            machines.end(steps)
        assert caught.value.code is Code.FAILED_PRECONDITION
        assert "holder (poweredOn)" in caught.value.message
        assert contents(ctx).keys() == {"", "data-1"}


def test_limits_are_those_of_the_targets_store(vcenter: SimulatedVCenter) -> None:
    small = store("small", "[LocalDS_0] small", largest_kb=GIB)
    full = store("full", "[LocalDS_0] full", volumes=1)
    with with_stores(vcenter, store(), small, full) as ctx:
        create(ctx, capacityKB=2 * GIB)
        failed = error_of(duplicate, ctx, toStore="small")
        assert failed.code is Code.INVALID_ARGUMENT
        assert failed.details[0].field == "toStore"
        made = duplicate(ctx, toStore="full")
        assert error_of(duplicate, ctx, "data-3", toStore="full").code is Code.RESOURCE_EXHAUSTED
        assert duplicate(ctx, toStore="full") == made


def test_a_copy_that_finds_no_space_leaves_nothing(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        vcenter.control.add_fault("CopyVirtualDisk_Task", "NoDiskSpace", scope="task", count=1)
        assert error_of(duplicate, ctx).code is Code.RESOURCE_EXHAUSTED
        assert contents(ctx).keys() == {"", "data-1"}
        vcenter.control.add_fault("MoveVirtualDisk_Task", "CannotAccessFile", scope="task", count=1)
        assert error_of(duplicate, ctx).code is Code.UNAVAILABLE
        assert contents(ctx).keys() == {"", "data-1"}
        assert vcenter.control.calls()["DeleteVirtualDisk_Task"] == 1, "a disk is more than its files"
        duplicate(ctx)
        whole(ctx, "data-2")


def test_what_is_half_copied_is_thrown_away(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        body = filled(ctx, "torn")
        killed(duplicating(ctx, "torn-copy", "torn"), 3)
        assert contents(ctx)["torn-copy"] == ["claim.json"]
        folder = found_store(ctx).folder / "torn-copy"
        for name in ("_copying.vmdk", "_copying-flat.vmdk"):
            files_of(ctx).write(folder / name, b"half")
        duplicate(ctx, "torn-copy", "torn")
        assert data(ctx, "torn-copy") == body
        whole(ctx, "torn-copy")
        files_of(ctx).write(folder / "_copying-flat.vmdk", b"half")
        destroy(ctx, "torn-copy")
        assert "torn-copy" not in contents(ctx)


@pytest.mark.parametrize("count", [2, 5, 7])
def test_a_copy_whose_source_goes_away_between_two_tries_leaves_nothing(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, f"leaving-{count}")
        killed(duplicating(ctx, f"left-{count}", f"leaving-{count}"), count)
        assert f"left-{count}" in contents(ctx)
        destroy(ctx, f"leaving-{count}")
        assert error_of(duplicate, ctx, f"left-{count}", f"leaving-{count}").code is Code.NOT_FOUND
        assert f"left-{count}" not in contents(ctx)


def test_a_copy_with_the_uuid_of_its_source_gets_its_own(vcenter: SimulatedVCenter) -> None:
    with Soap(vcenter) as soap, with_stores(vcenter) as ctx:
        create(ctx)
        uuid = soap.disk_uuid(disk("data-1"))
        steps = duplicating(ctx)
        for step in steps:
            if step.message.startswith("copied"):
                break
        copy = f"{FOLDER}/data-2/_copying.vmdk"
        soap.content.virtualDiskManager.SetVirtualDiskUuid(copy, soap.find("/DC0"), uuid)
        machines.end(steps)
        own = soap.disk_uuid(disk("data-2"))
        assert own != uuid
        assert own.startswith("60 00 c2 9")
        soap.attach(soap.clone("holder"), disk("data-2"))
        assert (get(ctx, "data-2").attached_to, get(ctx).attached_to) == (("holder",), ())


def test_a_disk_that_lies_there_is_not_taken_for_the_copy(
    shared_vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "real")
        files_of(ctx).make_folder(found_store(ctx).folder / "laid", parents=True)
        soap.create_disk(disk("laid"))
        uuid = soap.disk_uuid(disk("laid"))
        assert error_of(duplicate, ctx, "laid", "real").code is Code.ALREADY_EXISTS
        assert contents(ctx)["laid"] == ["laid-flat.vmdk", "laid.vmdk"]
        assert soap.disk_uuid(disk("laid")) == uuid


def killed(steps: Generator[Any, None, Any], count: int) -> bool:
    """Take some steps and close it as a dying process would; say whether there were more to come."""
    taken = len(list(islice(steps, count)))
    steps.close()
    return taken == count


def test_there_are_no_more_steps_than_are_tried(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "count")
        assert not killed(duplicating(ctx, "count-copy", "count"), STEPS[-1])


@pytest.mark.parametrize("count", STEPS)
def test_a_copy_that_was_killed_is_finished_or_swept(shared_vcenter: SimulatedVCenter, count: int) -> None:
    """By its next delivery, or another once its claim is old, and by a destroy; meanwhile it breaks no list."""
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter, clock=later) as late:
        body = filled(ctx, f"from-{count}")
        for name in ("to", "swept"):
            killed(duplicating(ctx, f"{name}-{count}", f"from-{count}"), count)
        listed = listing(ctx)
        shown = {one.tag for one in (*listed.volumes, *listed.degraded)}
        assert ({f"to-{count}", f"swept-{count}"} <= shown) == (count > 0)
        made = duplicate((ctx, late)[count % 2], f"to-{count}", f"from-{count}")
        assert get(ctx, f"to-{count}") == made
        assert data(ctx, f"to-{count}") == body
        destroy(late, f"swept-{count}")
        assert f"swept-{count}" not in contents(ctx)
        for name in ("to", "from"):
            whole(ctx, f"{name}-{count}")


@pytest.mark.parametrize("count", [5, 7])
def test_an_old_copy_is_not_taken_for_a_new_volume_nor_the_reverse(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    """Both have the same size and info; only one of them has anything on it. After so many steps it lies there."""
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter, clock=later) as late:
        body = filled(ctx, f"kept-{count}")
        killed(duplicating(ctx, f"new-{count}", f"kept-{count}"), count)
        create(late, f"new-{count}")
        assert data(ctx, f"new-{count}") == b""
        whole(ctx, f"new-{count}")
        killed(creating(ctx, f"copied-{count}"), 5)
        duplicate(late, f"copied-{count}", f"kept-{count}")
        assert data(ctx, f"copied-{count}") == body
        whole(ctx, f"copied-{count}")


@pytest.mark.parametrize("who", ["the next try", "another request once the claim is old"])
def test_a_copy_that_takes_longer_than_a_try_is_waited_for(vcenter: SimulatedVCenter, who: str) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=later) as late:
        body = filled(ctx, "data-1")
        vcenter.control.delay(CopyVirtualDisk=1000)
        vcenter.control.reset_calls()
        steps = duplicating(ctx)
        for step in steps:
            if step.phase == "copy":
                break
        with pytest.raises(CallError) as caught:
            steps.throw(CallError(Code.DEADLINE_EXCEEDED, "enough"))
        assert caught.value.code is Code.DEADLINE_EXCEEDED
        duplicate(ctx if who == "the next try" else late)
        assert vcenter.control.calls()["CopyVirtualDisk_Task"] == 1
        assert data(ctx, "data-2") == body
        whole(ctx, "data-2")


def claim_again(ctx: Context, volume_id: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Write a claim's fields otherwise."""
    files, path = files_of(ctx), found_store(ctx).folder / volume_id / "claim.json"
    files.write(path, json.dumps(change(json.loads(files.read(path) or b""))).encode())


def begun(ctx: Context, volume_id: str) -> str:
    """Begin a copy of data-1 and stop once its task is asked for; the task."""
    steps = duplicating(ctx, volume_id)
    for step in steps:
        if step.phase == "copy":
            steps.close()
            return str(json.loads(step.state)["task"])
    raise AssertionError("it does not copy")


def test_a_claim_that_does_not_say_whose_task_it_names_is_read_as_ever(vcenter: SimulatedVCenter) -> None:
    """As one that was written before it was kept: a worker of the new release goes on with an old one's copy."""
    with with_stores(vcenter) as ctx:
        body = filled(ctx, "data-1")
        vcenter.control.delay(CopyVirtualDisk=1000)
        begun(ctx, "data-2")
        claim_again(ctx, "data-2", lambda claim: {k: v for k, v in claim.items() if k != "vcenter"})
        vcenter.control.reset_calls()
        duplicate(ctx)
        assert vcenter.control.calls()["CopyVirtualDisk_Task"] == 0
        assert data(ctx, "data-2") == body
        whole(ctx, "data-2")


def test_the_task_of_another_vcenter_is_not_taken_for_one_of_this(vcenter: SimulatedVCenter) -> None:
    """The same id is another task here, which may have ended well: what lies there is a torn copy all the same."""
    with with_stores(vcenter) as ctx:
        body = filled(ctx, "data-1")
        task = begun(ctx, "data-2")
        duplicate(ctx)
        destroy(ctx, "data-2")
        killed(duplicating(ctx), 3)
        folder = found_store(ctx).folder / "data-2"
        for name in ("_copying.vmdk", "_copying-flat.vmdk"):
            files_of(ctx).write(folder / name, b"torn")
        claim_again(ctx, "data-2", lambda claim: {**claim, "task": task, "vcenter": "another"})
        vcenter.control.reset_calls()
        duplicate(ctx)
        assert vcenter.control.calls()["CopyVirtualDisk_Task"] == 1
        assert data(ctx, "data-2") == body
        whole(ctx, "data-2")


def test_the_task_of_another_vcenter_is_neither_stopped_nor_waited_for(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        filled(ctx, "data-1")
        vcenter.control.delay(CopyVirtualDisk=120_000)
        begun(ctx, "data-2")
        claim_again(ctx, "data-2", lambda claim: {**claim, "vcenter": "another"})
        request = CopyVolumeRequest.parse({"id": "data-1", "toId": "data-2"})
        assert not any("copy to end" in step.message for step in undo_copy_volume(request, ctx))
        assert contents(ctx).keys() == {"", "data-1"}


def test_copies_to_one_place_from_several_workers_make_one(vcenter: SimulatedVCenter) -> None:
    """Without leases over them: what one of them says is retryable is tried again."""

    def until_made(ctx: Context) -> Volume:
        for _ in range(200):
            try:
                return duplicate(ctx)
            except CallError as error:
                if not error.code.retryable:
                    raise
        raise AssertionError("it stays busy")

    with ExitStack() as opened, ThreadPoolExecutor(4) as pool:
        workers = [opened.enter_context(with_stores(vcenter)) for _ in range(4)]
        body = filled(workers[0], "data-1")
        made = list(pool.map(until_made, workers))
        assert made == [duplicate(workers[0])] * 4
        assert data(workers[0], "data-2") == body
        assert contents(workers[0]).keys() == {"", "data-1", "data-2"}


def test_what_another_delivery_copies_at_this_moment_is_left_to_it(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        body = filled(ctx, "data-1")
        files, folder = files_of(ctx), found_store(ctx).folder / "data-2"

        class Between:
            """A fence at which the other one begins, just before our copy does."""

            checks = 0

            def check(self) -> None:
                self.checks += 1
                if self.checks == 4:  # after the folder, and the claim's two
                    files.write(folder / "_copying-flat.vmdk", b"theirs")

            def confirm(self) -> None:
                """Nothing to ask."""

        with with_stores(vcenter, fence=Between(), operation=ctx.operation) as other:
            assert error_of(duplicate, other).code is Code.ABORTED
        assert files.read(folder / "_copying-flat.vmdk") == b"theirs"
        files.write(folder / "_copying.vmdk", b"theirs")
        duplicate(ctx)
        assert data(ctx, "data-2") == body
        whole(ctx, "data-2")


def test_a_lost_reply_makes_no_second_copy(vcenter: SimulatedVCenter) -> None:
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        with_stores(vcenter, port=proxy.port) as ctx,
    ):
        body = filled(ctx, "data-1")
        for call in ("CopyVirtualDisk_Task", "MoveVirtualDisk_Task"):
            proxy.drop_reply(f"<{call} ")
            assert error_of(duplicate, ctx).code is Code.UNAVAILABLE
        assert proxy.dropped == 2
        duplicate(ctx)
        assert data(ctx, "data-2") == body
        whole(ctx, "data-2")
