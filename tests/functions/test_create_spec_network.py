"""create_machine: the cards of the provider spec, on the simulated vCenter."""

import gzip
import json
from base64 import b64decode
from typing import Any

import pytest
from lxml import etree

from support.gateway import error_of
from support.machines import at, create, creation, extra, info, validate
from support.wire import recorded
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

MAC = "00:50:56:01:02:03"
STATIC: dict[str, Any] = {
    "name": "DC0_DVPG0",
    "addresses": ["10.0.0.5/24", "2001:db8::5/64"],
    "gateway4": "10.0.0.1",
}


def _cards(vcenter: SimulatedVCenter) -> list[Any]:
    devices = info(vcenter)["config"]["hardware"]["device"]
    return sorted((one for one in devices if "macAddress" in one), key=lambda one: one["key"])


def _told(vcenter: SimulatedVCenter) -> Any:
    """The network configuration that the guest is told."""
    metadata = json.loads(gzip.decompress(b64decode(extra(vcenter)["guestinfo.metadata"])))
    return metadata.get("network")


def _sent_cards(clone: bytes) -> list[tuple[str | None, str | None, str | None]]:
    """Operation, address type and MAC address of each card in a clone's spec."""
    changes = etree.fromstring(clone).iter("{*}deviceChange")
    found = [(one.findtext("{*}operation"), one.find("{*}device")) for one in changes]
    return [
        (operation, device.findtext("{*}addressType"), device.findtext("{*}macAddress"))
        for operation, device in found
        if device is not None
        and "Vmxnet3" in str(device.get("{http://www.w3.org/2001/XMLSchema-instance}type"))
    ]


def _twins(vcenter: SimulatedVCenter) -> dict[str, str]:
    """Make a port group `twin` on each of two switches, in two folders; the switches' uuids."""
    for name in ("one", "two"):
        switch = f"/DC0/network/{name}/switch-{name}"
        vcenter.govc("folder.create", f"/DC0/network/{name}")
        vcenter.govc("dvs.create", "-dc", "DC0", "-folder", f"/DC0/network/{name}", f"switch-{name}")
        vcenter.govc("dvs.add", "-dc", "DC0", "-dvs", switch, "DC0_C0_H0", "DC0_C0_H1")
        vcenter.govc("dvs.portgroup.add", "-dc", "DC0", "-dvs", switch, "twin")
    return {
        name: vcenter.govc("object.collect", "-s", f"/DC0/network/{name}/switch-{name}", "uuid").strip()
        for name in ("one", "two")
    }


def test_several_cards_come_in_the_order_of_the_spec(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator keeps a card's address where we ask for a new one: so we look at what we send, too."""
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, network=None, networks=[STATIC, {"name": "VM Network", "macAddress": MAC}])
    first, second = _cards(vcenter)
    assert "port" in first["backing"]
    assert second["backing"]["deviceName"] == "VM Network"
    assert second["macAddress"] == MAC
    assert _sent_cards(next(body for body in sent if b"CloneVM_Task" in body)) == [
        ("remove", None, None),
        ("add", "generated", ""),
        ("add", "manual", MAC),
    ]


def test_the_guest_is_told_the_addresses_by_the_cards_own_macs(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx, network=None, networks=[STATIC, {"name": "VM Network", "macAddress": MAC.upper()}])
    first, _ = _cards(vcenter)
    told = _told(vcenter)["ethernets"]
    assert told["nic0"]["match"] == {"macaddress": first["macAddress"].lower()}
    assert told["nic0"]["addresses"] == STATIC["addresses"]
    assert told["nic0"]["routes"] == [{"to": "0.0.0.0/0", "via": "10.0.0.1"}]
    assert told["nic1"] == {"match": {"macaddress": MAC}, "dhcp4": True, "dhcp6": False}


def test_a_network_s_name_alone_leaves_the_guest_s_network_to_the_guest(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
    assert _told(vcenter) is None


def test_one_card_keeps_the_template_s_slot(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, network=None, networks=[STATIC | {"macAddress": MAC}])
    clone = next(body for body in sent if b"CloneVM_Task" in body)
    assert _sent_cards(clone) == [("edit", "manual", MAC)]
    assert [one["macAddress"] for one in _cards(vcenter)] == [MAC]


def test_a_half_built_machine_is_told_of_its_network_by_the_next_try(vcenter: SimulatedVCenter) -> None:
    spec: dict[str, Any] = {"network": None, "networks": [STATIC, {"name": "VM Network"}]}
    with at(vcenter) as ctx:
        began = create_machine(creation(**spec), ctx)
        state = next(began).state
        began.close()
        create(ctx, state=state, **spec)
    assert vcenter.control.calls()["CloneVM_Task"] == 1
    macs = {one["macAddress"].lower() for one in _cards(vcenter)}
    assert {one["match"]["macaddress"] for one in _told(vcenter)["ethernets"].values()} == macs


def test_m53_every_card_s_network_is_looked_for(shared_vcenter: SimulatedVCenter) -> None:
    networks = [{"name": "blue"}, {"name": "VM Network"}, {"name": "green"}]
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, network=None, networks=networks)
        seen = validate(ctx, network=None, networks=networks)
    fields = ["providerSpec.networks.0.name", "providerSpec.networks.2.name"]
    assert (refused.code, [one.field for one in refused.details]) == (Code.INVALID_ARGUMENT, fields)
    assert "VM Network" in refused.details[0].candidates
    assert [one.field for one in seen.violations] == fields
    assert shared_vcenter.control.calls()["CloneVM_Task"] == 0


def test_a_switch_decides_between_port_groups_of_one_name(vcenter: SimulatedVCenter) -> None:
    uuids = _twins(vcenter)
    with at(vcenter) as ctx:
        refused = error_of(create, ctx, network="twin")
        assert [one.field for one in refused.details] == ["providerSpec.network"]
        assert refused.details[0].candidates == tuple(
            f"{name}/twin (switchUuid {uuids[name]})" for name in ("one", "two")
        )
        create(ctx, network="twin", switchUuid=uuids["two"].upper())
    key = vcenter.govc("object.collect", "-s", "/DC0/network/two/twin", "key").strip()
    (card,) = _cards(vcenter)
    assert card["backing"]["port"]["portgroupKey"] == key
    assert card["backing"]["port"]["switchUuid"] == uuids["two"]


def test_a_path_decides_too_and_each_of_networks_has_its_own_switch(vcenter: SimulatedVCenter) -> None:
    uuids = _twins(vcenter)
    networks = [{"name": "one/twin"}, {"name": "twin", "switchUuid": uuids["two"]}]
    with at(vcenter) as ctx:
        create(ctx, network=None, networks=networks)
    assert [one["backing"]["port"]["switchUuid"] for one in _cards(vcenter)] == [uuids["one"], uuids["two"]]


def test_a_switch_that_has_no_such_network_is_refused_with_those_that_have(
    shared_vcenter: SimulatedVCenter,
) -> None:
    uuid = "50 11 22 33 44 55 66 77-88 99 aa bb cc dd ee ff"
    with at(shared_vcenter) as ctx:
        single = error_of(create, ctx, switchUuid=uuid)
        several = error_of(
            create, ctx, network=None, networks=[{"name": "VM Network", "switchUuid": uuid}, STATIC]
        )
    (detail,) = single.details
    assert detail.field == "providerSpec.switchUuid"
    assert detail.candidates[0].startswith("DC0_DVPG0 (switchUuid ")
    assert [one.field for one in several.details] == ["providerSpec.networks.0.switchUuid"]
    assert several.details[0].candidates == ("VM Network",)


def test_each_network_and_what_else_the_spec_asks_for_needs_its_privilege(vcenter: SimulatedVCenter) -> None:
    device, resource = "VirtualMachine.Config.AddRemoveDevice", "VirtualMachine.Config.Resource"
    customizing = {"VirtualMachine.Provisioning.Customize", "VirtualMachine.Provisioning.ReadCustSpecs"}
    vcenter.control.deny("Network.Assign", device, resource, *customizing)
    spec: dict[str, Any] = {"network": None, "networks": [STATIC, {"name": "VM Network"}]}
    with at(vcenter) as ctx:
        plain = {(one.privilege, one.object) for one in validate(ctx).missing_privileges}
        several = {
            (one.privilege, one.object)
            for one in validate(ctx, **spec, cpuAllocation={"reservation": 1}).missing_privileges
        }
        custom = {one.privilege for one in validate(ctx, customization="vcsim-linux").missing_privileges}
    assert plain == {("Network.Assign", "DC0/network/DC0_DVPG0")}
    assert several == plain | {
        ("Network.Assign", "DC0/network/VM Network"),
        (device, "DC0/vm/demo/machines"),
        (resource, "DC0/vm/demo/machines"),
    }
    assert custom == {"Network.Assign", *customizing}
