"""The provider spec: Gardener's fields and what is checked of them."""

import re
from pathlib import Path
from typing import Any

import pytest

from events.requests import FULL, OWNED, SPEC
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineRequest, DeleteMachineRequest
from vsphere_events.machine_volume import MachineVolume
from vsphere_events.networks import Network
from vsphere_events.owner import Owner
from vsphere_events.provider_spec import CreateSpec, ProviderSpec
from vsphere_functions.vsphere.wanted import spec_digest

ASKING: dict[str, Any] = {"volumes": [{"id": "data-1", "mountPath": "/data"}]}
TOLD: dict[str, Any] = {
    "memoryReservationLockedToMax": True,
    "coresPerSocket": 2,
    "cpuAllocation": {"reservation": 500, "limit": -1, "shares": "high"},
    "memoryAllocation": {"reservation": 1024, "limit": 4096, "shares": 2000},
    "disks": [{"size": 5}, {"size": 6, "provisioning": "eagerZeroedThick"}],
    "switchUuid": "50 11",
    "vapp": {"properties": {"hostname": "x"}},
    "force": True,
    "waitForIP": True,
    "waitForIPSeconds": 60,
    "bootstrap": "cloud-init",
    "customization": "vcsim-linux",
    "sshKeys": ["ssh-ed25519 AAAA"],
}


def _refusal(spec: dict[str, Any]) -> CallError:
    with pytest.raises(CallError) as caught:
        CreateMachineRequest.parse({"machineName": "w1", "providerSpec": spec})
    return caught.value


def _fields(spec: dict[str, Any]) -> set[str | None]:
    error = _refusal(spec)
    assert error.code is Code.INVALID_ARGUMENT
    return {detail.field for detail in error.details}


def _create(spec: dict[str, Any]) -> CreateSpec:
    return CreateMachineRequest.parse({"machineName": "w1", "providerSpec": spec}).provider_spec


def test_every_field_is_kept() -> None:
    told = _create(FULL | TOLD).wire()
    for name, value in (FULL | TOLD).items():
        if name == "disks":
            value = [{"provisioning": "thin", **disk} for disk in value]  # noqa: PLW2901 - with its default
        assert told[name] == value


def test_delete_needs_the_tags_alone_and_takes_a_whole_spec_too() -> None:
    for spec in (OWNED, FULL, OWNED | ASKING):
        request = DeleteMachineRequest.parse({"machineName": "w1", "providerSpec": spec})
        assert request.provider_spec.owner == Owner("shoot--a", "node")
    assert type(ProviderSpec.parse(OWNED)) is ProviderSpec


@pytest.mark.parametrize("field", ["network", "templateVM", "datastore", "computeCluster", "tags"])
def test_a_create_names_what_it_misses(field: str) -> None:
    assert _fields({name: value for name, value in SPEC.items() if name != field}) == {
        f"providerSpec.{field}"
    }


@pytest.mark.parametrize("field", ["network", "templateVM", "datastore", "computeCluster"])
def test_an_empty_text_is_a_missing_field(field: str) -> None:
    assert _fields(SPEC | {field: ""}) == {f"providerSpec.{field}"}


@pytest.mark.parametrize("place", ["computeCluster", "resourcePool", "hostSystem"])
def test_any_one_place_to_run_is_enough(place: str) -> None:
    assert _create({**SPEC, "computeCluster": "", place: "here"}).wire()[place] == "here"


def test_empty_texts_and_zeros_of_other_fields_mean_nothing() -> None:
    spec = _create(
        SPEC
        | {"region": "", "folder": "", "guestId": "", "numCpus": 0, "memory": 0, "systemDisk": {"size": 0}}
    )
    assert (spec.region, spec.folder, spec.guest_id, spec.num_cpus, spec.memory) == (None,) * 5
    assert spec.system_disk
    assert spec.system_disk.size is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("numCpus", -1),
        ("numCpus", 769),
        ("numCpus", 2.0),
        ("numCpus", True),
        ("memory", 4097),
        ("memory", -4),
        ("memory", 2**40),
        ("systemDisk.size", -1),
        ("systemDisk.size", 63489),
        ("region", "a/b"),
        ("region", "a b"),
        ("region", "a" * 256),
        ("datastore", "a\nb"),
        ("templateVM", " a"),
        ("network", "x" * 1025),
        ("force", "yes"),
    ],
)
def test_a_value_out_of_its_range_is_refused(field: str, value: object) -> None:
    outer, _, inner = field.partition(".")
    assert _fields(SPEC | {outer: {inner: value} if inner else value}) == {f"providerSpec.{field}"}


def test_a_template_path_may_be_longer_than_a_machine_name() -> None:
    """M12."""
    path = "/".join(["templates"] * 50)
    assert _create(SPEC | {"templateVM": path}).template_vm == path


@pytest.mark.parametrize(
    "key",
    [
        "vspherefunctions.owner",
        "VSphereFunctions.owner",
        "guestinfo.userdata",
        "guestinfo.userdata.encoding",
        "GUESTINFO.METADATA",
        "v\u017fpherefunctions.mark",
        " vspherefunctions.owner",
        "vspherefunctions.owner\x00",
        "",
    ],
)
def test_extra_config_cannot_forge_the_mark_or_the_bootstrap_data(key: str) -> None:
    shown = key if re.fullmatch(r"[ \w.]+", key, re.ASCII) else "(key)"
    assert _fields(SPEC | {"extraConfig": {key: "x"}}) == {f"providerSpec.extraConfig.{shown}"}


@pytest.mark.parametrize(
    "key",
    [
        *("scsi0:1.fileName", "ide1:0.filename", "serial0.fileName", "floppy0.fileName", "log.fileName"),
        *("scsi0:1.deviceType", "ethernet0.networkName", "ETHERNET0.address", "ethernet1.dvs.portId"),
        *("workingDir", "sched.swap.dir", "RemoteDisplay.vnc.enabled", "pciPassthru0.id"),
    ],
)
def test_extra_config_names_no_file_and_no_device_of_a_host(key: str) -> None:
    """Another machine's disk would be one of them."""
    assert _fields(SPEC | {"extraConfig": {key: "[ds] other/other.vmdk"}}) == {
        f"providerSpec.extraConfig.{key}"
    }


@pytest.mark.parametrize(
    "key", ["disk.enableUUID", "guestinfo.my.fileName", "pciPassthru.use64bitMMIO", "scsi0:0.ctkEnabled"]
)
def test_extra_config_that_names_neither_is_taken(key: str) -> None:
    assert key in _create(SPEC | {"extraConfig": {key: "x"}}).extra_config


def test_other_extra_config_is_taken_and_what_xml_cannot_carry_is_refused() -> None:
    extra = {"guestinfo.other": "a\tb\nc 😀"}
    assert _create(SPEC | {"extraConfig": extra}).extra_config == extra
    for value in ("\x00", "\x0b", "\ufffe", "\ud800"):
        assert _fields(SPEC | {"extraConfig": {"a": value}}) == {"providerSpec.extraConfig.a"}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("force", False), ("waitForIP", False), ("sshKeys", []), ("volumes", []), ("customization", "")],
        *[("vapp", None), ("bootstrap", ""), ("bootstrap", None), ("networks", []), ("disks", [])],
        *[("coresPerSocket", 0), ("cpuAllocation", None), ("memoryReservationLockedToMax", None)],
    ],
)
def test_a_field_that_asks_for_nothing_is_taken(field: str, value: object) -> None:
    assert spec_digest(_create(SPEC | {field: value})) == spec_digest(_create(SPEC))


def test_the_digest_of_a_spec_stays_what_it_was() -> None:
    """A machine made by an earlier version is still the same machine."""
    digest = "bdb2e60f1af7e3124e34362a8ffbaa740d424279a64a3304d0af6d4f9d9c53be"
    assert spec_digest(_create(FULL)) == digest


@pytest.mark.parametrize("field", TOLD)
def test_a_field_that_is_set_counts_in_the_digest(field: str) -> None:
    assert spec_digest(_create(SPEC | {field: TOLD[field]})) != spec_digest(_create(SPEC))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"coresPerSocket": 3}, "coresPerSocket"),
        ({"cpuAllocation": {"reservation": 2, "limit": 1}}, "cpuAllocation.limit"),
        ({"cpuAllocation": {"limit": -2}}, "cpuAllocation.limit"),
        ({"cpuAllocation": {"shares": "some"}}, "cpuAllocation.shares"),
        ({"cpuAllocation": {"shares": 0}}, "cpuAllocation.shares"),
        ({"cpuAllocation": {"shares": True}}, "cpuAllocation.shares"),
        ({"memoryAllocation": {"reservation": 4097}}, "memoryAllocation.reservation"),
        (
            {"memoryAllocation": {"limit": 2048}, "memoryReservationLockedToMax": True},
            "memoryAllocation.limit",
        ),
        ({"disks": [{"size": 0}]}, "disks.0.size"),
        ({"disks": [{"size": 1}, {"size": 1, "provisioning": "fat"}]}, "disks.1.provisioning"),
        ({"disks": [{}]}, "disks.0.size"),
        ({"waitForIPSeconds": 0}, "waitForIPSeconds"),
        ({"waitForIPSeconds": 3601}, "waitForIPSeconds"),
        ({"bootstrap": "preseed"}, "bootstrap"),
        ({"bootstrap": "none", "sshKeys": ["ssh-rsa A"]}, "sshKeys"),
        ({"vapp": {"properties": {"a": 1}}}, "vapp.properties.a"),
        ({"vapp": {}}, "vapp.properties"),
        (
            {"extraConfig": {"guestinfo.ignition.config.data": "x"}},
            "extraConfig.guestinfo.ignition.config.data",
        ),
    ],
    ids=str,
)
def test_a_violation_is_named_by_its_path(spec: dict[str, Any], field: str) -> None:
    assert _fields(FULL | {"numCpus": 4} | spec) == {f"providerSpec.{field}"}


def test_ssh_keys_are_trimmed_and_are_one_line_each() -> None:
    assert _create(SPEC | {"sshKeys": ["  ssh-ed25519 AAAA me\n"]}).ssh_keys == ("ssh-ed25519 AAAA me",)
    for key in ("", "  ", "ssh-ed25519", "ssh-ed25519 AAAA\nssh-rsa BBBB", "a b\x00"):
        assert _fields(SPEC | {"sshKeys": [key]}) == {"providerSpec.sshKeys.0"}


@pytest.mark.parametrize(
    ("spec", "way"),
    [
        ({}, "cloud-init"),
        ({"guestId": "ubuntu64Guest"}, "cloud-init"),
        ({"guestId": "coreos64Guest"}, "ignition"),
        ({"guestId": "other4xLinux64Guest"}, "ignition"),
        ({"guestId": "coreos64Guest", "bootstrap": "none"}, "none"),
        ({"guestId": "other4xLinux64Guest", "bootstrap": "cloud-init"}, "cloud-init"),
        ({"bootstrap": "ignition"}, "ignition"),
    ],
    ids=str,
)
def test_the_guest_id_decides_how_a_guest_boots_unless_the_spec_says(spec: dict[str, Any], way: str) -> None:
    assert _create(SPEC | spec).boots_by == way


def test_the_reference_names_every_field() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "provider-spec.md").read_text("utf-8")
    for name, field in ProviderSpec.model_fields.items():
        assert re.search(rf"^\| .*`{field.alias}(\[\])?[`.].* \|", page, re.MULTILINE), name
    for field in Network.model_fields.values():
        assert re.search(rf"`(networks\[\])?\.{field.alias}(\[\])?`", page), field.alias
    for field in MachineVolume.model_fields.values():
        assert re.search(rf"`(volumes\[\])?\.{field.alias}`", page), field.alias


def test_more_tags_than_a_vcenter_should_have_attributes_are_refused() -> None:
    many = OWNED["tags"] | {f"tag-{number}": "x" for number in range(49)}
    error = _refusal(SPEC | {"tags": many})
    assert [detail.field for detail in error.details] == ["providerSpec.tags"]
