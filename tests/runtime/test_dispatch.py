"""From an event to a call: the right place, valid data, what it works on."""

from typing import Any

import pytest

from support.functions import SPEC, TAGS, request, settings
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.dispatch import (
    Address,
    Call,
    address_of,
    check_address,
    dispatch,
    refused_digest,
)
from vsphere_functions.runtime.order import Role
from vsphere_functions.runtime.settings import Settings, Store, VCenter

INSTALLATION = "0f5a6f0e-8a62-4c8a-9f0e-3d1d5c4b2a10"
MACHINE = {"machineName": "m-1", "providerSpec": {"tags": TAGS}}


def address(function: str, data: Any, label: str = "default", **attributes: Any) -> Address:
    return address_of(function, label, request(function, data=data, **attributes))


def call(function: str, data: Any, **attributes: Any) -> Call:
    return dispatch(address(function, data, **attributes), settings())


def refusal(work: Any, *arguments: Any) -> CallError:
    with pytest.raises(CallError) as error:
        work(*arguments)
    return error.value


def test_an_event_for_another_function_kind_or_vcenter_is_in_the_wrong_place() -> None:
    check_address(address("create_machine", MACHINE))
    check_address(address("create_machine", MACHINE, extensions={"vcenter": "default"}))
    wrong: list[dict[str, Any]] = [
        {"type": "io.vspherefunctions.delete_machine.request.v1"},
        {"type": "io.vspherefunctions.create_machine.succeeded.v1"},
        {"type": "com.example.other"},
        {"extensions": {"vcenter": "other"}},
    ]
    for attributes in wrong:
        error = refusal(check_address, address("create_machine", MACHINE, **attributes))
        assert error.code is Code.INVALID_ARGUMENT


def test_a_function_that_is_none_is_unimplemented() -> None:
    assert refusal(address_of, "fly", "default", request()).code is Code.UNIMPLEMENTED


@pytest.mark.parametrize("text", ["tomorrow", "2026-11-29T12:00:00", "1"])
def test_an_expirytime_without_a_meaning_is_refused(text: str) -> None:
    there = address("delete_machine", MACHINE, extensions={"expirytime": text})
    assert "expirytime" in refusal(dispatch, there, settings()).message


def test_an_unknown_vcenter_is_refused() -> None:
    there = address("delete_machine", MACHINE, label="none")
    assert refusal(dispatch, there, settings()).code is Code.INVALID_ARGUMENT


def test_all_calls_for_one_machine_meet_at_its_identity() -> None:
    create = call("create_machine", {"machineName": "m-1", "providerSpec": SPEC})
    one = {**MACHINE, "providerID": "vsphere://422e4956-ad22-1139-6d72-59cc8f26bc90"}
    delete, stop = call("delete_machine", one), call("shut_down_machine", MACHINE)
    assert create.identities == delete.identities == stop.identities
    assert (create.role, delete.role, stop.role) == (Role.CREATES, Role.REMOVES, Role.STOPS)
    assert (delete.incarnation, stop.incarnation) == (True, False)
    assert call("shut_down_machine", one).incarnation
    other = {"machineName": "m-1", "providerSpec": {"tags": {**TAGS, "mcm.gardener.cloud/role": "other"}}}
    assert call("delete_machine", other).identities != delete.identities


def test_a_machine_is_the_same_under_two_labels_of_one_vcenter() -> None:
    here = VCenter(url="https://VC.example/sdk", user="a", password="p")
    there = VCenter(url="https://vc.example:443/sdk", user="b", password="p")
    both = Settings(vcenters={"a": here, "b": there})
    calls = [dispatch(address("delete_machine", MACHINE, label), both) for label in ("a", "b")]
    assert calls[0].identities == calls[1].identities


@pytest.mark.parametrize(
    ("function", "data", "count"),
    [
        ("create_volume", {"id": "v"}, 1),
        ("create_volume", {}, 1),
        ("destroy_volume", {"id": "v"}, 1),
        ("resize_volume", {"selfLink": "vsphere-volume://default/default/v", "capacityKB": 1}, 1),
        ("copy_volume", {"id": "v", "toId": "w"}, 2),
        ("attach_volume", {**MACHINE, "id": "v"}, 2),
        ("detach_volume", {**MACHINE, "vmdkPath": "[ds] x.vmdk"}, 2),
        ("find_orphans", {"providerSpec": {"tags": TAGS}, "machines": [], "minAgeSeconds": 0}, 1),
        ("cancel_request", {"source": "/p", "id": "x"}, 1),
    ],
)
def test_each_function_names_what_it_works_on(function: str, data: dict[str, Any], count: int) -> None:
    assert len(set(call(function, data).identities)) == count


def test_a_sweep_holds_what_it_is_to_delete_as_others_do() -> None:
    ids = ["machine/vm-1/422e4956-ad22-1139-6d72-59cc8f26bc90/m-1", "volume/default/v/0123456789ab"]
    data = {"providerSpec": {"tags": TAGS}, "machines": [], "minAgeSeconds": 0, "delete": ids}
    sweep, delete = call("find_orphans", data), call("delete_machine", MACHINE)
    assert sweep.identities[1:] == (*delete.identities, *call("destroy_volume", {"id": "v"}).identities)
    assert sweep.role is Role.SWEEPS


def test_calls_for_one_volume_meet_at_its_identity() -> None:
    create = call("create_volume", {"id": "v"})
    link = call("destroy_volume", {"selfLink": "vsphere-volume://default/default/v"})
    attach = call("attach_volume", {**MACHINE, "id": "v"})
    assert create.identities == link.identities == attach.identities[1:]
    assert (create.role, link.role) == (Role.CREATES, Role.REMOVES)


def test_a_copy_is_about_the_volume_that_it_makes_and_holds_the_other_too() -> None:
    create, source = call("create_volume", {"id": "w", "store": "slow"}), call("destroy_volume", {"id": "v"})
    copy = call("copy_volume", {"id": "v", "toId": "w", "toStore": "slow"})
    assert copy.identities == (*create.identities, *source.identities)
    assert copy.role is Role.CREATES


@pytest.mark.parametrize("function", ["attach_volume", "detach_volume"])
@pytest.mark.parametrize("path", ["[ds] vols/VIC/{0}/volumes/v/v.vmdk", "[ds]vols/VIC/{0}/volumes/v/v.vmdk"])
def test_a_volume_by_its_path_meets_the_volume_by_its_id(function: str, path: str) -> None:
    """In each store that the path may be in: two datacenters can have datastores of one name."""
    stores = {
        name: Store(datacenter=datacenter, path="[ds] vols", installation=INSTALLATION)
        for name, datacenter in (("a", "DC0"), ("b", "DC1"))
    }
    with_stores = settings().model_copy(update={"stores": stores})
    by_path = dispatch(address(function, {**MACHINE, "vmdkPath": path.format(INSTALLATION)}), with_stores)
    for store in stores:
        by_id = dispatch(address(function, {**MACHINE, "id": "v", "store": store}), with_stores)
        assert set(by_id.identities) < set(by_path.identities)
    assert len(by_path.identities) == 3


def test_a_disk_that_lies_in_no_store_is_one_however_its_path_is_spelled() -> None:
    """And whatever the machine's datacenter calls the datastore: two can have two names for one."""
    one, *others = (
        call("attach_volume", {**MACHINE, "vmdkPath": path}).identities
        for path in ("[ds] a/x.vmdk", "[ds]a/x.vmdk", "[other name] a/x.vmdk")
    )
    assert others == [one, one]


@pytest.mark.parametrize("function", ["create_machine", "initialize_machine"])
def test_a_machine_holds_its_volumes_while_it_is_made(function: str) -> None:
    volumes = [{"id": "v"}, {"selfLink": "vsphere-volume://default/default/w"}, {"vmdkPath": "[ds] x.vmdk"}]
    data = {"machineName": "m-1", "providerSpec": SPEC | {"volumes": volumes}}
    create = call(function, data)
    of_volumes = {
        call("destroy_volume", {"id": "v"}).identities[0],
        call("destroy_volume", {"id": "w"}).identities[0],
        call("attach_volume", {**MACHINE, "vmdkPath": "[ds] x.vmdk"}).identities[1],
    }
    assert create.identities[0] == call("delete_machine", MACHINE).identities[0]
    assert set(create.identities[1:]) == of_volumes


def test_a_volume_of_another_vcenter_is_refused_at_its_field() -> None:
    volumes = [{"id": "v"}, {"selfLink": "vsphere-volume://other/default/w"}]
    data = {"machineName": "m-1", "providerSpec": SPEC | {"volumes": volumes}}
    error = refusal(dispatch, address("create_machine", data), settings())
    assert error.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in error.details] == ["providerSpec.volumes.1.selfLink"]


def test_an_anonymous_volume_is_named_by_its_request() -> None:
    one = request("create_volume", id="a", data={})
    assert (
        dispatch(address_of("create_volume", "default", one), settings()).identities
        == call("create_volume", {}, id="a").identities
    )
    assert call("create_volume", {}, id="b").identities != call("create_volume", {}, id="a").identities


def test_secrets_are_no_part_of_what_a_request_is() -> None:
    plain = call("delete_machine", MACHINE)
    renewed = call("delete_machine", {**MACHINE, "secrets": {"userData": "token"}})
    assert plain.digest == renewed.digest
    assert renewed.user_data == "token"
    assert "token" not in repr(renewed)


def test_refused_requests_are_told_apart_by_what_is_wrong() -> None:
    def digest(data: dict[str, Any]) -> str:
        there = address("delete_machine", data)
        return refused_digest(there, refusal(dispatch, there, settings()))

    assert digest({"machineName": "a"}) == digest({"machineName": "b"})
    assert digest({"machineName": "a"}) != digest({})


def test_a_request_is_the_same_whether_the_settings_refuse_it_or_not() -> None:
    one = settings()
    there, gone = address("delete_machine", MACHINE), address("delete_machine", MACHINE, label="gone")
    assert refused_digest(gone, refusal(dispatch, gone, one)) == dispatch(there, one).digest


def test_the_key_of_a_record_is_its_vcenter_and_token() -> None:
    event = CloudEvent(id="not a token", source="/p", type="t")
    assert address_of("create_machine", "vc-1", event).key.startswith("vc-1.")
    assert len(address_of("create_machine", "vc-1", event).token) == 32
