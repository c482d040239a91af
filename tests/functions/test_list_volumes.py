"""list_volumes on the simulated vCenter."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from threading import Barrier

from lxml import etree

from support.gateway import error_of
from support.soap import Soap
from support.volumes import contents, create, creating, destroy, found_store, listing, store, with_stores
from support.wire import Sent, everything_sent
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.metadata import Metadata
from vsphere_functions.vsphere.volumes_list import READERS

MANY = 500


def put_many(ctx: Context, count: int) -> list[str]:
    """Put volumes into the store, faster than creating them."""
    found = found_store(ctx)
    names = [f"many-{number:04}" for number in range(count)]
    told = Metadata(1024, {}, "2026-01-01T00:00:00+00:00", "0" * 32).render()

    def put(name: str) -> None:
        for file, body in ((f"{name}.vmdk", b""), (f"{name}-flat.vmdk", b""), ("volume.json", told)):
            found.files.write(found.folder / name / file, body)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, names))
    return names


def put_away(sent: list[Sent]) -> Counter[str]:
    """Sort what was sent: file reads, looks at a task, and other calls by their method."""
    return Counter(
        f"{one.verb} file"
        if one.path.startswith("/folder/")
        else "waiting"
        if b'type="Task"' in one.body
        else str(etree.QName(etree.fromstring(one.body)[-1][0]).localname)
        for one in sent
    )


def test_v20_five_hundred_volumes_are_a_bounded_number_of_calls(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        names = put_many(ctx, MANY)
        create(ctx, "far", store="second")
        with everything_sent() as sent:
            found = listing(ctx)
        assert [one.tag for one in found.volumes] == [*names, "far"]
        assert found.next_page_token is None
        calls = put_away(sent)
        assert calls.pop("waiting") >= 2  # as long as the server is at it
        assert calls == {
            "SearchDatastoreSubFolders_Task": 2,
            "CreateContainerView": 1,
            "RetrievePropertiesEx": 1,
            "DestroyView": 1,
            "GET file": MANY + 1,
        }
        reads = [one.path for one in sent if one.verb == "GET"]
        assert len(set(reads)) == len(reads)
        assert pages(ctx, pageSize=60) == [*names, "far"]
        with everything_sent() as sent:
            listing(ctx, pageSize=60, pageToken=f"default/{names[59]}")
        assert put_away(sent)["GET file"] == 60
        for token in ("default", "elsewhere/x", "default/", "/x", "default/x/y"):
            assert error_of(listing, ctx, pageToken=token).code is Code.INVALID_ARGUMENT


def test_v20_metadata_is_read_in_parallel(vcenter: SimulatedVCenter) -> None:
    """Each read waits until as many others run; were they one after the other, the first would wait in vain."""
    together = Barrier(READERS)

    def before(one: Sent) -> None:
        if one.verb == "GET":
            together.wait(60)

    with with_stores(vcenter) as ctx:
        names = put_many(ctx, 2 * READERS)
        with everything_sent(before) as sent:
            assert [one.tag for one in listing(ctx).volumes] == names
    assert put_away(sent)["GET file"] == len(names)


def pages(ctx: Context, **more: object) -> list[str]:
    """All pages of a list, one after the other."""
    found, token = list[str](), None
    while True:
        page = listing(ctx, **more, **({"pageToken": token} if token else {}))
        found += [one.tag for one in page.volumes]
        token = page.next_page_token
        if token is None:
            return found


def test_v20_pages_go_on_where_the_last_one_ended_whatever_comes_and_goes(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        for name in ("a", "c", "e"):
            create(ctx, name)
        create(ctx, "b", store="second")
        first = listing(ctx, pageSize=2)
        assert [one.tag for one in first.volumes] == ["a", "c"]
        create(ctx, "d")
        destroy(ctx, "a")
        rest = listing(ctx, pageSize=2, pageToken=first.next_page_token)
        assert [one.tag for one in rest.volumes] == ["d", "e"]
        last = listing(ctx, pageSize=2, pageToken=rest.next_page_token)
        assert [one.self_link for one in last.volumes] == ["vsphere-volume://default/second/b"]
        assert last.next_page_token is None


def test_one_store_alone_can_be_listed(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(), store("second", "[LocalDS_0] v")) as ctx:
        create(ctx, "a")
        create(ctx, "b", store="second")
        assert [one.tag for one in listing(ctx, store="second").volumes] == ["b"]
        assert error_of(listing, ctx, store="third").code is Code.INVALID_ARGUMENT
        failed = error_of(listing, ctx, store="vsphere-volume://another/default")
        assert failed.code is Code.INVALID_ARGUMENT


def test_v04_v19_what_is_not_whole_is_degraded_and_breaks_nothing(
    vcenter: SimulatedVCenter,
) -> None:
    with with_stores(vcenter, store()) as ctx, Soap(vcenter) as soap:
        found = found_store(ctx)
        for name in ("good", "cut", "empty", "foreign", "lost"):
            create(ctx, name)
        body = found.files.read(found.folder / "cut" / "volume.json") or b""
        found.files.write(found.folder / "cut" / "volume.json", body[:40])
        found.files.write(found.folder / "empty" / "volume.json", b"")
        found.files.write(found.folder / "foreign" / "volume.json", b'{"apiVersion":"v1"}')
        lost = str(found.folder / "lost" / "lost.vmdk")
        soap.wait(soap.content.virtualDiskManager.DeleteVirtualDisk_Task(lost, soap.find("/DC0")))
        found.files.make_folder(found.folder / "bare")
        found.files.make_folder(found.folder / "disk-only")
        soap.create_disk(str(found.folder / "disk-only" / "disk-only.vmdk"))
        found.files.write(found.folder / "someone" / "else.txt", b"mine")
        found.files.write(found.folder / "stray.iso", b"mine")
        seen = listing(ctx)
        assert [one.tag for one in seen.volumes] == ["good"]
        reasons = {one.tag: one.reason or "" for one in seen.degraded}
        assert {tag: key for tag, key in EXPECTED.items() if key not in reasons[tag]} == {}
        assert reasons.keys() == EXPECTED.keys()
        audit = {one.tag: one.reason or "" for one in listing(ctx, audit=True).degraded}
        assert audit.keys() == {*EXPECTED, "someone", "stray.iso"}
        assert "else.txt" in audit["someone"]
        for tag in EXPECTED:
            destroy(ctx, tag)
        assert contents(ctx).keys() == {"", "good", "someone"}


EXPECTED = {
    "bare": "a folder without a disk",
    "cut": "cut short",
    "disk-only": "a disk without metadata",
    "empty": "empty",
    "foreign": "not written by this service",
    "lost": "its disk is not there",
}


def test_an_audit_finds_lost_extents_and_creates_that_never_ended(vcenter: SimulatedVCenter) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    with with_stores(vcenter, store()) as ctx, with_stores(vcenter, store(), clock=lambda: later) as late:
        create(ctx, "headless")
        with Soap(vcenter) as soap:
            extent = str(found_store(ctx).folder / "headless" / "headless-flat.vmdk")
            soap.wait(soap.content.fileManager.DeleteDatastoreFile_Task(extent, soap.find("/DC0")))
        began = creating(ctx, "begun")
        assert [step.phase for step in islice(began, 3)][-1] == "claim"
        began.close()
        plain = listing(ctx)
        assert [one.tag for one in plain.volumes] == ["headless"]
        assert "being made" in (plain.degraded[0].reason or "")
        young = {one.tag: one.reason or "" for one in listing(ctx, audit=True).degraded}
        assert "no extent" in young["headless"]
        assert "never ended" not in young["begun"]
        old = {one.tag: one.reason or "" for one in listing(late, audit=True).degraded}
        assert "never ended" in old["begun"]


def test_v27_a_store_whose_datastore_is_gone_is_named_beside_the_others(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx, "a")
        create(ctx, "b", store="second")
        with Soap(vcenter) as soap:
            soap.wait(soap.find("/DC0/datastore/we ird (1)").Destroy_Task())
        seen = listing(ctx)
        assert [one.tag for one in seen.volumes] == ["b"]
        assert seen.unreachable_stores == ("default",)
        assert error_of(listing, ctx, store="default").code is Code.UNAVAILABLE


def test_v27_a_store_that_cannot_be_browsed_is_named_beside_the_others(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx, "a")
        create(ctx, "b", store="second")
        vcenter.control.add_fault(
            "SearchDatastoreSubFolders_Task", "InaccessibleDatastore", scope="task", count=1
        )
        seen = listing(ctx)
        assert ([one.tag for one in seen.volumes], seen.unreachable_stores) == (["b"], ("default",))


def test_a_volume_survives_as_json(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store()) as ctx:
        create(ctx, "a", info={"k": "QQ=="})
        (volume,) = listing(ctx).wire()["volumes"]
    assert json.loads(json.dumps(volume))["info"] == {"k": "QQ=="}
