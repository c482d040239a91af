"""The volumes of a machine: how they are named, and where a guest can mount them."""

from typing import Any

import pytest

from events.requests import SPEC
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine_volume import MachineVolume
from vsphere_events.provider_spec import CreateSpec


def _fields(*volumes: dict[str, Any], **spec: Any) -> list[str | None]:
    """The fields of a create's volumes that are refused; those that are not built yet do not count."""
    try:
        CreateSpec.parse(SPEC | {"volumes": list(volumes)} | spec)
    except CallError as error:
        return [one.field for one in error.details if one.reason != "not built yet"]
    return []


def _at(path: object) -> MachineVolume:
    return MachineVolume.parse({"id": "a", "mountPath": path})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"id": "a"}, "a"),
        ({"id": "a", "store": "fast"}, "a"),
        ({"selfLink": "vsphere-volume://eu-1/default/a"}, "a"),
        ({"vmdkPath": "[ds (1)] my disks/a.vmdk"}, "[ds (1)] my disks/a.vmdk"),
        ({"vmdkPath": "[ds] 100%/a%20b.vmdk"}, "[ds] 100%/a%20b.vmdk"),
    ],
)
def test_a_volume_is_named_in_one_way(given: dict[str, str], name: str) -> None:
    volume = MachineVolume.parse(given)
    assert (volume.name, volume.filesystem, volume.read_only, volume.mount_path) == (
        name,
        "ext4",
        False,
        None,
    )


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"id": "a", "vmdkPath": "[ds] a.vmdk"},
        {"id": "a", "selfLink": "vsphere-volume://eu-1/default/a"},
        {"store": "fast", "vmdkPath": "[ds] a.vmdk"},
        {"id": "../../a"},
        {"id": "a", "store": "a/b"},
        {"selfLink": "vsphere-volume://eu-1/default"},
        {"vmdkPath": "a.vmdk"},
        {"vmdkPath": "[ds] ../a.vmdk"},
        {"vmdkPath": "[ds] a//b.vmdk"},
        {"vmdkPath": "[ds] a\\b.vmdk"},
        {"vmdkPath": "[ds] a/%2e%2e/b.vmdk"},
        {"vmdkPath": "[ds] a/%00/b.vmdk"},
        {"vmdkPath": "[ds] a%5cb.vmdk"},
        {"vmdkPath": "[ds] a"},
        {"id": "a", "filesystem": "ntfs"},
        {"id": "a", "readOnly": "yes"},
    ],
    ids=str,
)
def test_a_volume_that_is_named_or_described_wrongly_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(CallError) as caught:
        MachineVolume.parse(given)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "path", ["/data", "/srv/db_1.x", "/var/lib/kubelet/x", "/var/log", "/opt", "/a-b", "/usrx", "/..data"]
)
def test_a_path_that_a_guest_can_mount_on_is_taken(path: str) -> None:
    assert _at(path).mount_path == path


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "data", "//data", "/data/", "/a//b", "/a/./b", "/a/../b", "/..", "/.", "~", 7),
        *(
            "/bin",
            "/etc/x",
            "/usr/local/x",
            "/proc/1",
            "/run/x",
            "/tmp/x",
            "/var/tmp/x",
            "/var/run",
            "/lib64",
        ),
        *("/var", "/var/lib", "/var/lib/systemd/x", "/var/lib/cloud", "/dev/shm/x", "/boot/efi"),
        *(
            "/a b",
            "/a\nb",
            "/a;b",
            "/a$b",
            "/a%b",
            "/a'b",
            '/a"b',
            "/a\\b",
            "/a:b",
            "/a#b",
            "/ä",
            "/a*",
            "/{a}",
        ),
        "/" + "a" * 240,
        "/" + "-" * 60,
    ],
)
def test_any_other_path_is_refused(path: object) -> None:
    with pytest.raises(CallError) as caught:
        _at(path)
    assert [one.field for one in caught.value.details] == ["mountPath"]


def test_all_that_is_wrong_with_a_volume_comes_at_once() -> None:
    assert set(_fields({"mountPath": "/etc", "filesystem": "ntfs", "readOnly": 1, "size": 5})) == {
        "volumes.0",  # the unknown size
        *(f"volumes.0.{name}" for name in ("mountPath", "filesystem", "readOnly", "id")),
    }


@pytest.mark.parametrize(
    ("first", "second", "field"),
    [
        ({"id": "a"}, {"id": "a", "store": "default"}, "id"),
        ({"id": "a", "store": "fast"}, {"selfLink": "vsphere-volume://eu-1/fast/a"}, "selfLink"),
        ({"id": "a"}, {"id": "a", "store": "vsphere-volume://eu-1/default"}, "id"),
        ({"vmdkPath": "[ds] a.vmdk"}, {"vmdkPath": "[ds] a.vmdk"}, "vmdkPath"),
        ({"id": "a", "mountPath": "/a"}, {"id": "b", "mountPath": "/a"}, "mountPath"),
    ],
)
def test_what_may_be_given_once_is_refused_twice(
    first: dict[str, Any], second: dict[str, Any], field: str
) -> None:
    assert _fields(first, second) == [f"volumes.1.{field}"]
    assert _fields({"id": "a", "store": "s"}, {"id": "a", "store": "t"}) == []


def test_a_volume_that_another_one_would_hide_is_refused() -> None:
    outer, inner = {"id": "a", "mountPath": "/data"}, {"id": "b", "mountPath": "/data/b"}
    assert _fields(inner, outer) == ["volumes.0.mountPath"]
    assert _fields(outer, inner) == []
    assert _fields({"id": "b", "mountPath": "/data-b"}, outer) == []


def test_a_volume_is_not_mounted_where_the_guest_cannot_be_told_or_cannot_find_it() -> None:
    volume = {"id": "a", "mountPath": "/data"}
    assert _fields({"id": "b"}, volume, bootstrap="none") == ["volumes.1.mountPath"]
    for key, value in (("disk.EnableUUID", "FALSE"), ("guestinfo.vendordata", "x")):
        assert _fields(volume, extraConfig={key: value}) == ["extraConfig"]
        assert _fields({"id": "b"}, extraConfig={key: value}) == []
    assert _fields(volume, extraConfig={"disk.EnableUUID": "TRUE"}) == []


@pytest.mark.parametrize(
    "volumes", ["x", 7, {"a": 1}, [None, "x", 7, []], [{"id": {}, "mountPath": []}, {"id": {}, "store": 7}]]
)
def test_what_is_no_list_of_volumes_is_refused_in_peace(volumes: object) -> None:
    with pytest.raises(CallError) as caught:
        CreateSpec.parse(SPEC | {"volumes": volumes})
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_a_flood_of_volumes_is_refused_at_once() -> None:
    assert _fields(*({"id": "a", "mountPath": "/a"} for _ in range(20000)))[0] == "volumes"
