"""get_volume on the simulated vCenter; what it shows of volumes in trouble is in the tests of create and destroy."""

import pytest

from support.gateway import error_of
from support.volumes import contents, create, files_of, found_store, get, store, with_stores
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter


def test_a_volume_is_found_by_id_and_by_link(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        made = create(ctx, store="second", info={"a": "QQ=="})
        assert get(ctx, store="second") == get(ctx, None, selfLink=made.self_link) == made


def test_a_volume_that_is_not_there_is_not_found(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        assert error_of(get, ctx).code is Code.NOT_FOUND
        create(ctx, "data-2")
        assert error_of(get, ctx).code is Code.NOT_FOUND


def test_get_changes_nothing(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        vcenter.control.reset_calls()
        get(ctx)
        reading = {"CreateContainerView", "DestroyView", "RetrievePropertiesEx"}
        assert set(vcenter.control.calls()) == {*reading, "SearchDatastoreSubFolders_Task"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b'{"v":1,"capac', "cut short"),
        (b"[]", "not written by this service"),
        (b'{"hello":"world"}', "not written by this service"),
        (b'{"v":9,"checksum":"x"}', "another version"),
        (b'{"v":1,"checksum":"x"}', "checksum"),
    ],
)
def test_v19_what_is_wrong_with_metadata_is_said(
    shared_vcenter: SimulatedVCenter, body: bytes, reason: str
) -> None:
    with with_stores(shared_vcenter) as ctx:
        made = create(ctx, None)
        files_of(ctx).write(found_store(ctx).folder / made.tag / "volume.json", body)
        seen = get(ctx, made.tag)
    assert seen.state == "degraded"
    assert reason in (seen.reason or "")


def test_a_changed_byte_of_metadata_is_noticed(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        create(ctx)
        path = found_store(ctx).folder / "data-1" / "volume.json"
        body = files_of(ctx).read(path) or b""
        files_of(ctx).write(path, body.replace(b"1048576", b"2048576"))
        assert "checksum" in (get(ctx).reason or "")


def test_v27_a_store_out_of_reach_is_unavailable(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(path="[gone] vols")) as ctx:
        for asked in (get, create):
            failed = error_of(asked, ctx)
            assert failed.code is Code.UNAVAILABLE
            assert "gone" in failed.message


def test_a_datacenter_that_is_ambiguous_is_a_configuration_error(vcenter: SimulatedVCenter) -> None:
    vcenter.govc("folder.create", "/F0", "/F1")
    vcenter.govc("object.mv", "/DC0", "/F1")
    vcenter.govc("object.mv", "/DC1", "/F0")
    vcenter.govc("object.rename", "/F0/DC1", "DC0")
    with with_stores(vcenter) as ctx, with_stores(vcenter, store(datacenter="F0/DC0")) as exact:
        failed = error_of(get, ctx)
        assert failed.code is Code.FAILED_PRECONDITION
        assert "F0/DC0" in failed.message
        create(exact)
        assert contents(exact)["data-1"]
