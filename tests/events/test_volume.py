"""Requests of the volume functions: ids, stores, links, sizes."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.requests import MINIMAL
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.model import Model
from vsphere_events.volume import (
    AttachVolumeRequest,
    CreateVolumeRequest,
    GetVolumeIdsRequest,
    GetVolumeRequest,
    ListVolumesRequest,
    VolumeKey,
    anonymous_id,
    store_name,
)

LINK = "vsphere-volume://default/fast/data-1"


def _fields(model: type[Model], data: dict[str, Any]) -> list[str | None]:
    with pytest.raises(CallError) as caught:
        model.parse(data)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return [detail.field for detail in caught.value.details]


@pytest.mark.parametrize("volume_id", ["a", "A.b_c-1", "0" * 100, "data-12345", "data-1234567", "a-flatter"])
def test_a_volume_id_is_taken(volume_id: str) -> None:
    assert CreateVolumeRequest.parse({"id": volume_id}).id == volume_id


@pytest.mark.parametrize(
    "volume_id",
    [
        *("", "../a", "a/b", "a b", ".a", "-a", "0" * 101, "é", "a\n", "a%2fb"),
        *(f"a-{tail}" for tail in ("flat", "delta", "sesparse", "ctk", "rdm", "rdmp", "digest", "000001")),
    ],
)
def test_another_volume_id_is_refused_before_any_call(volume_id: str) -> None:
    assert _fields(CreateVolumeRequest, {"id": volume_id}) == ["id"]
    link = f"vsphere-volume://default/default/{volume_id}"
    assert _fields(GetVolumeRequest, {"selfLink": link})[0] == "selfLink"


@given(st.integers(1, 62 * 1024**3))
def test_a_capacity_rounds_up_to_whole_mib(kib: int) -> None:
    made = CreateVolumeRequest.parse({"capacityKB": kib}).capacity_kb or 0
    assert made % 1024 == 0
    assert 0 <= made - kib < 1024


@pytest.mark.parametrize("kib", [0, -1, 62 * 1024**3 + 1, 1.5, "1024", True])
def test_a_capacity_of_nothing_or_too_much_is_refused(kib: object) -> None:
    assert _fields(CreateVolumeRequest, {"capacityKB": kib}) == ["capacityKB"]


def test_the_defaults_of_a_volume() -> None:
    request = CreateVolumeRequest.parse({})
    assert (request.id, request.store, request.capacity_kb, request.disk_format) == (
        None,
        "default",
        None,
        "thin",
    )


@pytest.mark.parametrize("coded", ["x", "QQ", "é", 7])
def test_info_is_base64(coded: object) -> None:
    assert CreateVolumeRequest.parse({"info": {"a": "QQ=="}}).info == {"a": "QQ=="}
    assert _fields(CreateVolumeRequest, {"info": {"a": coded}}) == ["info.a"]


@pytest.mark.parametrize(
    "store", ["", "a b", "../x", "vsphere-volume://default", LINK, "vsphere-volume://B/fast"]
)
def test_a_store_that_is_no_name_and_no_link_is_refused(store: str) -> None:
    assert _fields(ListVolumesRequest, {"store": store}) == ["store"]


@pytest.mark.parametrize(
    "link",
    ["x", "vsphere-volume://default/fast", "vsphere-volume://default/a b/x", "vsphere-volume:///fast/x"],
)
def test_a_link_that_is_none_is_refused(link: str) -> None:
    assert _fields(GetVolumeRequest, {"selfLink": link}) == ["selfLink"]
    with pytest.raises(CallError):
        VolumeKey.of_link("default", "x")


def test_a_volume_is_named_by_id_and_store_or_by_link() -> None:
    for data in ({"id": "data-1", "store": "fast"}, {"selfLink": LINK}):
        assert GetVolumeRequest.parse(data).key("default") == VolumeKey("fast", "data-1")
    linked = GetVolumeRequest.parse({"id": "data-1", "store": "vsphere-volume://default/fast"})
    assert linked.key("default").link("default") == LINK
    assert str(GetVolumeRequest.parse({"id": "data-1"}).key("default")) == "default/data-1"


@pytest.mark.parametrize("data", [{}, {"id": "a", "selfLink": LINK}])
def test_a_volume_named_in_no_way_or_in_two_is_refused(data: dict[str, Any]) -> None:
    assert _fields(GetVolumeRequest, data) == ["id"]


def test_a_store_goes_with_an_id() -> None:
    assert _fields(GetVolumeRequest, {"selfLink": LINK, "store": "fast"}) == ["store"]
    attach = {name: value for name, value in MINIMAL["attach_volume"].items() if name != "id"}
    assert _fields(AttachVolumeRequest, attach | {"vmdkPath": "[ds] a.vmdk", "store": "fast"}) == ["store"]
    assert _fields(AttachVolumeRequest, attach) == ["id"]


def test_a_link_to_another_vcenter_is_refused() -> None:
    """E19: the volumes' part."""
    for data in ({"selfLink": LINK}, {"id": "data-1", "store": "vsphere-volume://default/fast"}):
        with pytest.raises(CallError) as caught:
            GetVolumeRequest.parse(data).key("other")
        assert caught.value.code is Code.INVALID_ARGUMENT
    assert store_name("other", "fast") == "fast"


def test_an_anonymous_volume_is_named_by_its_request() -> None:
    one = anonymous_id("/p", "1")
    assert one == anonymous_id("/p", "1") == "45b5bd6b-548f-5f23-a06e-49b6a94ed908"
    assert UUID(one).version == 5
    assert len({one, anonymous_id("/p", "2"), anonymous_id("/q", "1"), anonymous_id("/p\n1", "")}) == 4


@pytest.mark.parametrize("specs", [[], [None, {"csi": {}}]])
def test_pv_specs_are_a_list_or_its_text(specs: list[Any]) -> None:
    for given_specs in (specs, json.dumps(specs)):
        assert GetVolumeIdsRequest.parse({"pvSpecList": given_specs}).pv_spec_list == tuple(specs)


@pytest.mark.parametrize("specs", ["", "{", "{}", "true", '"[]"', '[{"a":1,"a":2}]', None, {}, 7])
def test_other_pv_specs_are_refused(specs: object) -> None:
    assert _fields(GetVolumeIdsRequest, {"pvSpecList": specs}) == ["pvSpecList"]


def test_a_pv_spec_that_is_no_object_is_named() -> None:
    assert _fields(GetVolumeIdsRequest, {"pvSpecList": [{}, 7]}) == ["pvSpecList.1"]
