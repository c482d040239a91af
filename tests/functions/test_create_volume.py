"""create_volume on the simulated vCenter."""

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.gateway import end_other_sessions, error_of, opened
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
from vsphere_events.volume import CreateVolumeRequest, Volume
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.files import DatastorePath
from vsphere_functions.vsphere.policies import find_policy
from vsphere_functions.vsphere.stores import StoreConfig
from vsphere_functions.vsphere.volumes import Leaf

WHOLE = ["data-1-flat.vmdk", "data-1.vmdk", "volume.json"]
FOLDER = f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes"
DISK = f"{FOLDER}/data-1/data-1.vmdk"


@pytest.fixture
def soap(vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(vcenter) as client:
        yield client


def until_made(ctx: Context, volume_id: str = "data-1", **more: object) -> Volume:
    """Try again as a delivery would, while another request is at it."""
    for _ in range(200):
        try:
            return create(ctx, volume_id, **more)
        except CallError as error:
            if not error.code.retryable:
                raise
    raise AssertionError("it stays busy")


def test_a_volume_lies_where_the_store_says_and_govc_sees_it(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        made = create(ctx, capacityKB=2 * GIB)
        assert contents(ctx)["data-1"] == WHOLE
    assert made.vmdk_path == DISK
    assert (made.tag, made.datastore, made.capacity_kb) == ("data-1", "we ird (1)", 2 * GIB)
    assert made.self_link == "vsphere-volume://default/default/data-1"
    where = DISK.partition("] ")[2]
    disk = vcenter.govc("datastore.disk.info", "-json", "-dc", "DC0", "-ds", "we ird (1)", where)
    assert json.dumps(disk).count("data-1.vmdk")
    listed = vcenter.govc("datastore.ls", "-dc", "DC0", "-ds", "we ird (1)", where.rpartition("/")[0])
    assert listed.split() == WHOLE


def test_the_metadata_says_whose_disk_it_is_and_carries_a_checksum(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx, info={"a": "QQ=="})
        body = files_of(ctx).read(found_store(ctx).folder / "data-1" / "volume.json")
    told = json.loads(body or b"")
    spaced = soap.disk_uuid(DISK)
    assert " " in spaced
    assert told["uuid"] == "".join(char for char in spaced if char.isalnum()).lower()
    assert (told["capacity_kb"], told["info"], len(told["checksum"])) == (GIB, {"a": "QQ=="}, 64)


def test_v02_a_create_whose_metadata_cannot_be_written_leaves_nothing(vcenter: SimulatedVCenter) -> None:
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        with_stores(vcenter, port=proxy.port) as ctx,
    ):
        for _ in range(3):  # the claim goes through; no try at the metadata does
            proxy.drop_reply("PUT /folder", nth=2)
        assert error_of(create, ctx).code is Code.UNAVAILABLE
        assert proxy.dropped == 3
        assert contents(ctx) == {"": []}
        create(ctx)
        assert contents(ctx)["data-1"] == WHOLE


def test_v02_a_metadata_move_that_fails_leaves_nothing(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        vcenter.control.add_fault("MoveDatastoreFile_Task", "CannotAccessFile", scope="task", skip=1, count=1)
        assert error_of(create, ctx).code is Code.UNAVAILABLE
        assert contents(ctx) == {"": []}
        create(ctx)


@pytest.mark.parametrize("same", [True, False], ids=["redelivered", "two requests"])
def test_v03_the_same_create_in_parallel_makes_one_disk(vcenter: SimulatedVCenter, same: bool) -> None:
    with with_stores(vcenter) as one, with_stores(vcenter) as other, ThreadPoolExecutor(2) as pool:
        contexts = (one, one) if same else (one, other)
        made = list(pool.map(until_made, contexts))
        assert made[0] == made[1] == create(other)
        assert contents(one) == {"": [], "data-1": WHOLE}


@pytest.mark.parametrize(
    "call", ["MakeDirectory", "MoveDatastoreFile_Task", "CreateVirtualDisk_Task", "DeleteDatastoreFile_Task"]
)
def test_v03_a_lost_reply_makes_no_second_disk(vcenter: SimulatedVCenter, call: str) -> None:
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        with_stores(vcenter, port=proxy.port) as ctx,
    ):
        proxy.drop_reply(f"<{call} ")
        made = until_made(ctx)
        assert proxy.dropped == 1
        assert create(ctx) == made
        assert contents(ctx)["data-1"] in (WHOLE, ["claim.json", *WHOLE])


@pytest.mark.parametrize("more", [{"capacityKB": 2 * GIB}, {"info": {"a": "QQ=="}}, {"info": {}}])
def test_v04_another_size_or_info_is_another_volume(
    vcenter: SimulatedVCenter, more: dict[str, object]
) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter) as other:
        made = create(ctx, info={"b": "QQ=="})
        failed = error_of(create, other, **{"info": {"b": "QQ=="}, **more})
        assert failed.code is Code.ALREADY_EXISTS
        assert get(ctx) == made


def test_the_order_of_info_keys_makes_no_difference(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        made = create(ctx, info={"a": "QQ==", "b": "Qg=="})
        assert create(ctx, info={"b": "Qg==", "a": "QQ=="}) == made


@pytest.mark.parametrize("disk", [False, True], ids=["folder", "disk"])
def test_v04_a_folder_or_a_disk_without_metadata_is_completed(
    vcenter: SimulatedVCenter, soap: Soap, disk: bool
) -> None:
    with with_stores(vcenter) as ctx:
        files_of(ctx).make_folder(found_store(ctx).folder / "data-1", parents=True)
        if disk:
            soap.create_disk(DISK)
            uuid = soap.disk_uuid(DISK)
        (half,) = listing(ctx).degraded
        assert (half.tag, half.state) == ("data-1", "degraded")
        create(ctx)
        assert get(ctx).state == "ready"
        assert listing(ctx).degraded == ()
        if disk:
            assert soap.disk_uuid(DISK) == uuid
        destroy(ctx)
        assert contents(ctx) == {"": []}


def test_a_disk_of_another_size_is_not_taken_for_the_volume(vcenter: SimulatedVCenter, soap: Soap) -> None:
    """What vCenter says of the disk counts, not what was asked for; also after a create that was interrupted."""
    with with_stores(vcenter) as ctx:
        files_of(ctx).make_folder(found_store(ctx).folder / "data-1", parents=True)
        soap.create_disk(DISK, kib=3 * GIB)
        began = creating(ctx)
        assert [step.phase for step in islice(began, 2)][-1] == "claim"
        began.close()
        for _ in range(2):
            failed = error_of(create, ctx)
            assert failed.code is Code.ALREADY_EXISTS
            assert str(3 * GIB) in failed.message
            assert contents(ctx)["data-1"] == WHOLE[:2]
        assert create(ctx, capacityKB=3 * GIB).capacity_kb == 3 * GIB


def test_a_disk_that_was_there_before_survives_a_create_that_fails(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    """Whoever put it there may have written into it."""
    with with_stores(vcenter) as ctx:
        files_of(ctx).make_folder(found_store(ctx).folder / "data-1", parents=True)
        soap.create_disk(DISK)
        uuid = soap.disk_uuid(DISK)
        vcenter.control.add_fault("QueryVirtualDiskUuid", "SystemError", count=1)
        assert error_of(create, ctx).code is Code.UNKNOWN
        assert contents(ctx)["data-1"] == WHOLE[:2]
        assert soap.disk_uuid(DISK) == uuid


def test_v04_metadata_without_its_disk_is_never_given_an_empty_twin(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        soap.wait(soap.content.virtualDiskManager.DeleteVirtualDisk_Task(DISK, soap.find("/DC0")))
        failed = error_of(create, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert get(ctx).state == "degraded"
        destroy(ctx)
        assert contents(ctx) == {"": []}
        create(ctx)


def test_v05_eight_parallel_creates_in_a_store_that_is_not_there_yet(vcenter: SimulatedVCenter) -> None:
    names = [f"data-{number}" for number in range(8)]
    with with_stores(vcenter) as ctx, ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: create(ctx, name), names))
        assert [one.tag for one in made] == names
        assert [one.tag for one in listing(ctx).volumes] == names


def test_v08_a_store_in_the_folder_of_a_vm_is_a_configuration_error(vcenter: SimulatedVCenter) -> None:
    home = vcenter.govc("vm.info", "-json", "-dc", "DC0", "/DC0/vm/templates/ubuntu-24.04")
    path = home["virtualMachines"][0]["config"]["files"]["vmPathName"]
    inside = DatastorePath.parse(path)
    folder = str(DatastorePath(inside.datastore, inside.parts[:-1]))
    for config in (store(path=folder), store(path=f"{folder}/below")):
        with with_stores(vcenter, config) as ctx:
            failed = error_of(create, ctx)
            assert failed.code is Code.FAILED_PRECONDITION
            assert "ubuntu-24.04" in failed.message
            assert listing(ctx).unreachable_stores == ("default",)


def test_two_stores_on_one_place_are_a_configuration_error(vcenter: SimulatedVCenter) -> None:
    stores = (store(), store("twin", "[we ird (1)] /vols//"), store("apart", "[we ird (1)] vols-2"))
    with with_stores(vcenter, *stores) as ctx:
        for name in ("default", "twin"):
            failed = error_of(create, ctx, store=name)
            assert failed.code is Code.FAILED_PRECONDITION
        create(ctx, store="apart")
    with with_stores(vcenter, store(), store("other", vcenter="another-label")) as ctx:
        assert error_of(create, ctx).code is Code.FAILED_PRECONDITION


def test_v10_the_datastore_is_the_one_of_the_stores_datacenter(vcenter: SimulatedVCenter) -> None:
    stores = (store("zero", "[LocalDS_0] vols"), store("one", "[LocalDS_0] vols", "DC1"))
    with with_stores(vcenter, *stores) as ctx:
        create(ctx, "of-dc0", store="zero")
        create(ctx, "of-dc1", store="one")
    for name, other in (("DC0", "DC1"), ("DC1", "DC0")):
        where = f"vols/VIC/{INSTALLATION}/volumes"
        listed = vcenter.govc("datastore.ls", "-R", "-dc", name, "-ds", "LocalDS_0", where)
        assert f"of-{name.lower()}.vmdk" in listed
        assert "volume.json" in listed
        assert f"of-{other.lower()}" not in listed


def test_v11_a_datacenter_in_a_folder_is_named_by_its_whole_path(vcenter: SimulatedVCenter) -> None:
    vcenter.govc("folder.create", "/F 0")
    vcenter.govc("object.mv", "/DC0", "/F 0")
    with with_stores(vcenter) as ctx:
        files = files_of(ctx)
        assert "dcPath=F%200%2FDC0&dsName=we%20ird%20%281%29" in files.url(
            DatastorePath("we ird (1)", ("a",))
        )
        create(ctx, info={"a": "QQ=="})
        assert get(ctx).info == {"a": "QQ=="}


@pytest.mark.parametrize(("asked", "made"), [(1, 1024), (1025, 2048), (2048, 2048)])
def test_v13_sizes_round_up_to_whole_mib(shared_vcenter: SimulatedVCenter, asked: int, made: int) -> None:
    with with_stores(shared_vcenter) as ctx:
        volume_id = f"size-{asked}"
        assert create(ctx, volume_id, capacityKB=asked).capacity_kb == made
        assert get(ctx, volume_id).capacity_kb == made
        spec = files_of(ctx).read(found_store(ctx).folder / volume_id / f"{volume_id}.vmdk")
    assert f"RW {made * 2} ".encode() in (spec or b"")


@pytest.mark.parametrize(
    ("data", "config"),
    [
        ({"capacityKB": 0}, store()),
        ({"capacityKB": -1}, store()),
        ({"capacityKB": 2**63}, store()),
        ({"capacityKB": 3 * GIB}, store(largest_kb=2 * GIB)),
        ({"id": "../../x"}, store()),
        ({"id": "a/b"}, store()),
        ({"id": ""}, store()),
        ({"id": "."}, store()),
        ({"id": "x" * 101}, store()),
        ({"id": "ü"}, store()),
        ({"id": "data-000001"}, store()),
        ({"store": "elsewhere"}, store()),
        ({"store": "vsphere-volume://another/default"}, store()),
        ({}, store("not-default")),
    ],
)
def test_v13_v22_what_is_refused_makes_no_call(
    shared_vcenter: SimulatedVCenter, data: dict[str, object], config: StoreConfig
) -> None:
    with with_stores(shared_vcenter, config) as ctx:
        shared_vcenter.control.reset_calls()
        refused = {"id": "data-1", **data}
        failed = error_of(create, ctx, None, **refused)
        assert failed.code is Code.INVALID_ARGUMENT
        assert shared_vcenter.control.calls().total() == 0


def accepted(volume_id: str) -> bool:
    """Whether an id gets past the model."""
    try:
        CreateVolumeRequest.parse({"id": volume_id})
    except CallError:
        return False
    return True


@given(st.text(max_size=110) | st.from_regex(r"[A-Za-z0-9.][A-Za-z0-9_./-]{0,20}", fullmatch=True))
def test_v22_no_id_leads_out_of_its_folder(volume_id: str) -> None:
    folder = store().folder
    leaf = Leaf(store=_Nowhere(folder), id=volume_id)  # type: ignore[arg-type]  # only its folder is asked
    inside = all(
        DatastorePath.parse(str(path)) == path
        and path.parts[:-2] == folder.parts
        and path.parts[-2] == volume_id
        for path in (leaf.disk, leaf.doomed, leaf.path / "volume.json")
        if accepted(volume_id)
    )
    assert inside


class _Nowhere:
    """A store that is only a folder."""

    def __init__(self, folder: DatastorePath) -> None:
        self.folder = folder


@settings(max_examples=15)
@given(volume_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}", fullmatch=True).filter(accepted))
def test_v22_a_volume_made_lies_in_the_store_and_nothing_outside(
    shared_vcenter: SimulatedVCenter, volume_id: str
) -> None:
    with with_stores(shared_vcenter, store("property", "[PodDS_0] one/two")) as ctx:
        root = DatastorePath("PodDS_0", ())
        create(ctx, volume_id, store="property")
        folder = found_store(ctx, "property").folder
        files = files_of(ctx, "property")
        holding = [one.path for one in files.browse(root) if one.files]
        assert holding == [folder / volume_id]
        destroy(ctx, volume_id, store="property")
        assert not [one.path for one in files.browse(root) if one.files]


@settings(max_examples=15)
@given(info=st.dictionaries(st.sampled_from(["a+b&c d", "é%2f", "x"]), st.binary(max_size=40)))
def test_v23_info_comes_back_byte_for_byte(shared_vcenter: SimulatedVCenter, info: dict[str, bytes]) -> None:
    coded = {key: base64.b64encode(value).decode() for key, value in info.items()}
    volume_id = uuid4().hex
    with with_stores(shared_vcenter) as ctx:
        assert create(ctx, volume_id, info=coded).info == coded
        assert get(ctx, volume_id).info == coded


def test_v25_no_space_leaves_no_folder(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        vcenter.control.add_fault("CreateVirtualDisk_Task", "NoDiskSpace", scope="task", count=1)
        assert error_of(create, ctx).code is Code.RESOURCE_EXHAUSTED
        assert contents(ctx) == {"": []}
        failed = error_of(create, ctx, capacityKB=62 * 1024**3, diskFormat="eagerZeroedThick")
        assert failed.code is Code.RESOURCE_EXHAUSTED
        assert contents(ctx) == {"": []}
        create(ctx)


def test_a_store_that_is_full_takes_no_more_but_knows_what_it_has(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(volumes=2), store("second", "[LocalDS_0] v", total_kb=3 * GIB)) as ctx:
        for volume_id in ("a", "b"):
            create(ctx, volume_id)
            create(ctx, volume_id, store="second")
        assert error_of(create, ctx, "c").code is Code.RESOURCE_EXHAUSTED
        assert create(ctx, "a").state == "ready"
        assert error_of(create, ctx, "c", store="second", capacityKB=2 * GIB).code is Code.RESOURCE_EXHAUSTED
        create(ctx, "c", store="second", capacityKB=GIB)


def test_a_create_without_a_size_takes_the_stores_own(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(default_kb=5 * GIB)) as ctx:
        assert create(ctx).capacity_kb == 5 * GIB


@pytest.mark.parametrize(
    ("asked", "kind"),
    [("thin", "thin"), ("thick", "preallocated"), ("eagerZeroedThick", "eagerZeroedThick")],
)
def test_the_format_is_what_the_product_calls_it(
    shared_vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch, asked: str, kind: str
) -> None:
    with with_stores(shared_vcenter) as ctx:
        bodies = recorded(monkeypatch)
        create(ctx, f"format-{asked}", diskFormat=asked, capacityKB=1024)
    sent = [body for body in bodies if body and b"CreateVirtualDisk_Task" in body]
    assert [texts_in(body, "diskType") for body in sent] == [[kind]]


def test_a_storage_policy_is_found_by_its_name(
    shared_vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "VVol No Requirements Policy"
    listed = shared_vcenter.govc("storage.policy.ls", "-json", name)
    (known,) = [one["profileId"]["uniqueId"] for one in listed["profile"]]
    with with_stores(shared_vcenter) as ctx:
        bodies = recorded(monkeypatch)
        create(ctx, "policy", storagePolicy=name)
        assert get(ctx, "policy").state == "ready"
    (sent,) = [body for body in bodies if body and b"CreateVirtualDisk_Task" in body]
    assert texts_in(sent, "profileId") == [known]


def test_a_storage_policy_that_is_not_there_is_refused_with_those_that_are(
    shared_vcenter: SimulatedVCenter,
) -> None:
    with with_stores(shared_vcenter) as ctx:
        failed = error_of(create, ctx, "unknown-policy", storagePolicy="gold")
        assert failed.code is Code.INVALID_ARGUMENT
        assert failed.details[0].field == "storagePolicy"
        assert "vSAN Default Storage Policy" in failed.details[0].candidates
        assert "unknown-policy" not in contents(ctx)


def test_policies_are_asked_for_under_the_session_and_again_when_it_is_lost(
    vcenter: SimulatedVCenter,
) -> None:
    """Their service takes the login in the message, not in the cookie."""
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        with_stores(vcenter, port=proxy.port) as ctx,
        opened(vcenter) as admin,
    ):
        create(ctx, "a", storagePolicy="VM Encryption Policy")
        assert end_other_sessions(admin) == 1
        assert find_policy(ctx.vcenter(), "VM Encryption Policy")
        proxy.drop_reply("<PbmQueryProfile ")
        create(ctx, "b", storagePolicy="VM Encryption Policy")
        assert proxy.dropped == 1


def test_an_anonymous_volume_is_named_by_its_request(vcenter: SimulatedVCenter) -> None:
    operation = str(uuid4())
    with with_stores(vcenter, operation=operation) as ctx, with_stores(vcenter) as other:
        assert create(ctx, None).tag == create(ctx, None).tag == operation
        assert create(other, None).tag != operation
        assert len(listing(ctx).volumes) == 2


def test_a_young_claim_of_another_is_waited_for_and_an_old_one_taken_over(vcenter: SimulatedVCenter) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=lambda: later) as much_later:
        began = creating(ctx)
        assert [step.phase for step in islice(began, 3)][-1] == "claim"
        began.close()
        for asked in (create, destroy):
            with with_stores(vcenter) as other:
                assert error_of(asked, other).code is Code.ABORTED
        assert create(much_later).state == "ready"
        assert contents(ctx)["data-1"] == WHOLE


def test_what_a_stale_claim_of_another_size_has_made_is_made_anew(
    vcenter: SimulatedVCenter, soap: Soap
) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=lambda: later) as much_later:
        began = creating(ctx)
        for step in began:
            if step.message.startswith("made") and step.phase == "create_disk":
                break
        began.close()
        uuid = soap.disk_uuid(DISK)
        assert create(much_later, capacityKB=2 * GIB).capacity_kb == 2 * GIB
        assert soap.disk_uuid(DISK) != uuid
        assert contents(ctx)["data-1"] == WHOLE


def test_a_claim_that_changes_hands_meanwhile_is_given_back(vcenter: SimulatedVCenter) -> None:
    """Between the look at a stale claim and its taking over, another took it."""
    later = datetime.now(UTC) + timedelta(hours=2)
    with with_stores(vcenter) as ctx:
        folder = found_store(ctx).folder / "data-1"
        files = files_of(ctx)
        files.make_folder(folder, parents=True)
        stale = Claim("theirs", GIB, "x", "2020-01-01T00:00:00+00:00")
        fresh = Claim("fresh", GIB, "x", later.isoformat())
        files.write(folder / "claim.json", stale.render())

        class Between:
            checks = 0

            def check(self) -> None:
                self.checks += 1
                if self.checks == 2:  # the folder is tried first, then the claim moved
                    files.write(folder / "claim.json", fresh.render())

            def confirm(self) -> None:
                """Nothing to ask."""

        with with_stores(vcenter, fence=Between(), clock=lambda: later) as late:
            assert error_of(create, late).code is Code.ABORTED
        assert files.read(folder / "claim.json") == fresh.render()
        assert contents(ctx)["data-1"] == ["claim.json"]


def test_nothing_is_changed_once_the_lease_is_lost(vcenter: SimulatedVCenter) -> None:
    class Lost:
        def check(self) -> None:
            raise CallError(Code.ABORTED, "the lease is lost")

        def confirm(self) -> None:
            raise CallError(Code.ABORTED, "the lease is lost")

    with with_stores(vcenter) as ctx:
        create(ctx, "data-2")
    with with_stores(vcenter, fence=Lost()) as ctx:
        assert error_of(create, ctx).code is Code.ABORTED
        assert error_of(destroy, ctx, "data-2").code is Code.ABORTED
        assert error_of(resize, ctx, 2 * GIB, "data-2").code is Code.ABORTED
        assert error_of(duplicate, ctx, "data-3", "data-2").code is Code.ABORTED
        assert (get(ctx, "data-2").state, get(ctx, "data-2").capacity_kb) == ("ready", GIB)
        assert contents(ctx).keys() == {"", "data-2"}


def test_a_create_that_is_out_of_time_goes_on_and_a_failed_one_leaves_nothing(
    vcenter: SimulatedVCenter,
) -> None:
    with with_stores(vcenter) as ctx:
        for code in (Code.RESOURCE_EXHAUSTED, Code.DEADLINE_EXCEEDED):
            began = creating(ctx)
            for step in began:
                if step.phase == "create_disk" and step.message.startswith("made"):
                    break
            with pytest.raises(CallError) as caught:
                began.throw(CallError(code, "enough"))
            assert caught.value.code is code
            assert bool(contents(ctx).get("data-1")) == (code is Code.DEADLINE_EXCEEDED)
        create(ctx)
        assert contents(ctx)["data-1"] == WHOLE
