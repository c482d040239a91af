"""Bootstrap data for Ignition."""

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.machine_volume import MachineVolume
from vsphere_functions.bootstrap.ignition import ignition
from vsphere_functions.bootstrap.volumes import FORMATTER, mounted, script, unit_files

TEXT = st.text(st.characters(codec="utf-8"))


def _read(source: str) -> str:
    kind, _, data = source.partition(",")
    assert kind == "data:;base64"
    return b64decode(data, validate=True).decode()


def _files(config: Any) -> dict[str, str]:
    return {one["path"]: _read(one["contents"]["source"]) for one in config["storage"]["files"]}


@given(TEXT, st.lists(TEXT), TEXT, TEXT)
def test_any_text_comes_through_as_valid_json(hostname: str, keys: list[str], data: str, unit: str) -> None:
    config = json.loads(ignition(hostname, keys, "#" + data, {"10-nic0.network": unit}))
    assert config["ignition"] == {"version": "2.1.0"}
    assert _files(config) == {
        "/etc/hostname": hostname,
        "/etc/systemd/network/10-nic0.network": unit,
        "/var/lib/flatcar-install/user_data": "#" + data,
    }
    users = config.get("passwd", {}).get("users", [])
    assert users == ([{"name": "core", "sshAuthorizedKeys": keys}] if keys else [])


def test_the_files_are_those_of_the_root_and_the_user_data_is_root_s_alone() -> None:
    config = json.loads(ignition("w", [], "x", {}))
    assert {one["filesystem"] for one in config["storage"]["files"]} == {"root"}
    assert [one["mode"] for one in config["storage"]["files"]] == [0o644, 0o600]


@pytest.mark.parametrize(
    ("guest", "folder"),
    [("coreos64Guest", "coreos"), ("other4xLinux64Guest", "flatcar"), (None, "flatcar"), ("x", "flatcar")],
)
def test_user_data_lies_where_the_guest_looks_for_it(guest: str | None, folder: str) -> None:
    config = json.loads(ignition("w", [], "x", {}, guest))
    assert _files(config)[f"/var/lib/{folder}-install/user_data"] == "x"


@pytest.mark.parametrize(
    ("version", "ours", "key"), [("3.4.0", "3.0.0", "merge"), ("2.3.0", "2.1.0", "append")]
)
def test_user_data_that_is_ignition_itself_is_merged(version: str, ours: str, key: str) -> None:
    data = json.dumps({"ignition": {"version": version}, "storage": {}})
    config = json.loads(ignition("w", ["k k"], data, {}))
    assert config["ignition"]["version"] == ours
    (theirs,) = config["ignition"]["config"][key]
    assert _read(theirs["source"]) == data
    assert _files(config) == {"/etc/hostname": "w"}
    assert ("filesystem" in config["storage"]["files"][0]) is (ours == "2.1.0")


@pytest.mark.parametrize(
    "data", ["null", "[]", "7", '{"ignition": 1}', '{"ignition": {"version": 3}}', "[" * 9999]
)
def test_other_json_is_a_file(data: str) -> None:
    assert data in _files(json.loads(ignition("w", [], data, {}))).values()


def test_without_user_data_there_is_no_file_for_it() -> None:
    assert _files(json.loads(ignition("w", [], None, {}))) == {"/etc/hostname": "w"}


@pytest.mark.parametrize("version", ["2.3.0", "3.4.0"])
def test_volumes_are_units_and_the_script_that_formats(version: str) -> None:
    read_only = MachineVolume.parse({"id": "b", "mountPath": "/b", "readOnly": True})
    both = [MachineVolume.parse({"id": "a", "mountPath": "/a"}), read_only]
    volumes = mounted(both, ["6000c2937ba03a039f2256c52993b727", "6000c2937ba03a039f2256c52993b728"])
    theirs = json.dumps({"ignition": {"version": version}})
    config = json.loads(ignition("w", [], theirs, {}, None, volumes))
    assert _files(config)[FORMATTER] == script()
    units = {one["name"]: one for one in config["systemd"]["units"]}
    assert {name: one["contents"] for name, one in units.items()} == unit_files(volumes)
    assert {name for name, one in units.items() if one.get("enabled")} == {"a.mount", "b.mount"}
    alone = json.loads(ignition("w", [], None, {}, None, volumes[1:]))
    assert FORMATTER not in _files(alone)
    assert "systemd" not in json.loads(ignition("w", [], None, {}))
