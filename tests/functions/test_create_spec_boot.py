"""create_machine: what a guest boots from, on the simulated vCenter."""

import gzip
import json
from base64 import b64decode
from typing import Any

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.machines import OTHERS, at, create, creation, extra, info, initialize, validate
from support.soap import Soap
from support.wire import recorded, texts_in
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

KEY = "ssh-ed25519 AAAA me@example"
CONFIG = "#cloud-config\nhostname: <<MACHINE_NAME>>\n"
IGNITION = "guestinfo.ignition.config.data"


def _unpacked(packed: str) -> str:
    return gzip.decompress(b64decode(packed)).decode()


def _properties(vcenter: SimulatedVCenter, name: str = "worker-1") -> dict[str, str]:
    """The values of a machine's vApp properties, defaults where it has none."""
    found = info(vcenter, f"/DC0/vm/demo/machines/{name}")["config"]["vAppConfig"]["property"]
    return {one["id"]: one.get("value") or one.get("defaultValue", "") for one in found}


def _property(key: int, name: str, default: str = "", *, settable: bool = True) -> Any:
    info = vim.vApp.PropertyInfo(
        key=key, id=name, type="string", userConfigurable=settable, defaultValue=default, label=name, value=""
    )
    return vim.vApp.PropertySpec(operation="add", info=info)


def _give_properties(vcenter: SimulatedVCenter, *properties: Any) -> None:
    """Give the template vApp properties; as a template it cannot be changed."""
    with Soap(vcenter) as soap:
        template = soap.find("/DC0/vm/templates/ubuntu-24.04")
        template.MarkAsVirtualMachine(pool=soap.find("/DC0/host/DC0_C0/Resources"))
        config = vim.vm.ConfigSpec(vAppConfig=vim.vApp.VmConfigSpec(property=list(properties)))
        soap.wait(template.ReconfigVM_Task(config))
        template.MarkAsTemplate()


def test_keys_and_the_machine_s_name_are_in_the_user_data(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, user_data=CONFIG) as ctx:
        create(ctx, sshKeys=[f"  {KEY}\n"])
    told = _unpacked(extra(vcenter)["guestinfo.userdata"])
    assert told == f'#cloud-config\nhostname: worker-1\nssh_authorized_keys: ["{KEY}"]\n'


def test_keys_that_cannot_be_added_are_refused_with_everything_else_before_the_clone(
    vcenter: SimulatedVCenter,
) -> None:
    with at(vcenter, user_data="#cloud-config\nssh_authorized_keys: []\n") as ctx:
        refused = error_of(create, ctx, sshKeys=[KEY], network="blue")
        seen = validate(ctx, sshKeys=[KEY], network="blue")
    assert refused.code is Code.INVALID_ARGUMENT
    fields = {"providerSpec.sshKeys", "providerSpec.network"}
    assert {one.field for one in refused.details} == {one.field for one in seen.violations} == fields
    assert vcenter.control.calls()["CloneVM_Task"] == 0


@pytest.mark.parametrize("spec", [{"guestId": "other4xLinux64Guest"}, {"bootstrap": "ignition"}], ids=str)
def test_ignition_gets_all_of_it_in_one_config(vcenter: SimulatedVCenter, spec: Any) -> None:
    network: dict[str, Any] = {
        "network": None,
        "networks": [{"name": "DC0_DVPG0", "addresses": ["10.0.0.5/24"]}],
    }
    with at(vcenter, user_data="#!/bin/sh\n") as ctx:
        create(ctx, sshKeys=[KEY], **network, **spec)
    kept = extra(vcenter)
    assert kept[f"{IGNITION}.encoding"] == "gzip+base64"
    assert "guestinfo.userdata" not in kept
    config = json.loads(_unpacked(kept[IGNITION]))
    files = {one["path"]: one["contents"]["source"].partition(",")[2] for one in config["storage"]["files"]}
    (card,) = [one for one in info(vcenter)["config"]["hardware"]["device"] if "macAddress" in one]
    unit = b64decode(files["/etc/systemd/network/10-nic0.network"]).decode()
    assert f"MACAddress={card['macAddress'].lower()}\n" in unit
    assert b64decode(files["/etc/hostname"]) == b"worker-1"
    assert config["passwd"]["users"] == [{"name": "core", "sshAuthorizedKeys": [KEY]}]


def test_none_gives_the_guest_nothing_and_takes_no_user_data(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx, bootstrap="none")
    assert not [key for key in extra(vcenter) if key.startswith("guestinfo.")]
    with at(vcenter, user_data="x") as ctx:
        refused = error_of(create, ctx, "worker-2", bootstrap="none")
    assert [one.field for one in refused.details] == ["secrets.userData"]


def test_initialize_writes_the_bootstrap_data_too(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, user_data=CONFIG) as ctx:
        began = create_machine(creation(sshKeys=[KEY]), ctx)
        state = next(began).state
        began.close()
        initialize(ctx, state=state, sshKeys=[KEY])
    assert KEY in _unpacked(extra(vcenter)["guestinfo.userdata"])


def test_properties_are_generated_for_a_template_that_has_some(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    _give_properties(
        vcenter,
        *(
            _property(at, name)
            for at, name in enumerate(("hostname", "user-data", "instance-id", "public-keys"))
        ),
        _property(7, "password", "none"),
        _property(8, "vendor", "kept", settable=False),
    )
    sent = recorded(monkeypatch)
    with at(vcenter, user_data=CONFIG) as ctx:
        create(ctx, sshKeys=[KEY])
        again = len(sent)
        create(ctx, sshKeys=[KEY])
    told = _properties(vcenter)
    assert (told["hostname"], told["instance-id"]) == ("worker-1", info(vcenter)["config"]["instanceUuid"])
    assert told["public-keys"] == KEY
    assert b64decode(told["user-data"]).decode().startswith("#cloud-config\nhostname: worker-1\n")
    assert (told["password"], told["vendor"]) == ("none", "kept")
    assert not [body for body in sent[again:] if b"ReconfigVM_Task" in body]


def test_explicit_properties_take_the_place_of_generated_ones(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not given goes back to its default, also what the template's owner had set."""
    stale = _property(3, "proxy", "direct")
    stale.info.value = "http://old"
    _give_properties(vcenter, _property(1, "hostname"), _property(2, "role", "worker"), stale)
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, vapp={"properties": {"role": "etcd <&>"}})
    assert _properties(vcenter) == {"hostname": "", "role": "etcd <&>", "proxy": "direct"}
    asked = next(body for body in sent if b"vAppConfig" in body and b"ReconfigVM_Task" in body)
    assert texts_in(asked, "key")[-2:] == ["2", "3"]
    assert set(texts_in(asked, "operation")) >= {"edit"}


def test_explicit_properties_that_the_template_lacks_or_locks_are_refused_at_once(
    vcenter: SimulatedVCenter,
) -> None:
    _give_properties(vcenter, _property(1, "hostname"), _property(2, "locked", settable=False))
    asked = {"properties": {"hostname": "x", "locked": "x", "nope": "x"}}
    with at(vcenter) as ctx:
        refused = error_of(create, ctx, vapp=asked)
        seen = validate(ctx, vapp=asked)
        other = error_of(create, ctx, "worker-2", tags=OTHERS, datacenter="DC1", vapp=asked)
    reasons = {detail.field: detail.reason for detail in refused.details}
    assert reasons == {
        "providerSpec.vapp.properties.locked": "the template does not let people set this property",
        "providerSpec.vapp.properties.nope": "the template has no such vApp property",
    }
    assert refused.details[0].candidates == ("hostname",)
    assert {one.field for one in seen.violations} == reasons.keys()
    assert len(other.details) == 3
    assert vcenter.control.calls()["CloneVM_Task"] == 0


def test_a_half_built_machine_gets_its_properties(vcenter: SimulatedVCenter) -> None:
    _give_properties(vcenter, _property(1, "hostname"))
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        state = next(began).state
        began.close()
        create(ctx, state=state)
    assert _properties(vcenter) == {"hostname": "worker-1"}
    assert vcenter.control.calls()["CloneVM_Task"] == 1


def test_with_bootstrap_none_properties_are_left_alone_unless_given(vcenter: SimulatedVCenter) -> None:
    _give_properties(vcenter, _property(1, "hostname", "default"))
    with at(vcenter) as ctx:
        create(ctx, bootstrap="none")
        create(ctx, "worker-2", bootstrap="none", vapp={"properties": {"hostname": "given"}})
    assert _properties(vcenter) == {"hostname": "default"}
    assert _properties(vcenter, "worker-2") == {"hostname": "given"}
