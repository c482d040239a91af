"""What a guest is told of its volumes: units by the disks' uuids, and how they come into the guest."""

import os
import re
from pathlib import Path

import pytest

from support.guest import Guest, unit_of
from vsphere_events.machine_volume import MachineVolume
from vsphere_functions.bootstrap.volumes import FORMATTER, boothook, escaped, mounted, script, unit_files

SPACED = "60 00 C2 93 7b a0 3a 03-9f 22 56 c5 29 93 b7 27"
UUID = "6000c2937ba03a039f2256c52993b727"
DEVICE = f"/dev/disk/by-id/wwn-0x{UUID}"
DATA = MachineVolume.parse({"id": "data-1", "mountPath": "/srv/my-db"})
LOGS = MachineVolume.parse({"vmdkPath": "[ds] $(x).vmdk", "mountPath": "/logs", "readOnly": True})
BARE = MachineVolume.parse({"id": "raw"})


@pytest.mark.parametrize("uuid", [SPACED, UUID, UUID.upper(), "6000C293-7ba0-3a03-9f22-56c52993b727"])
def test_a_disk_is_found_by_its_uuid_however_vsphere_spells_it(uuid: str) -> None:
    (volume,) = mounted([DATA], [uuid])
    assert volume.device == DEVICE


@pytest.mark.parametrize("uuid", ["", "6000", UUID + "0", "x" * 32, UUID[:-1] + "\n", UUID[:-1] + "'"])
def test_what_is_no_uuid_names_no_disk(uuid: str) -> None:
    with pytest.raises(ValueError, match="not the uuid"):
        mounted([DATA], [uuid])


def test_each_volume_needs_its_uuid_and_only_those_with_a_path_are_told() -> None:
    assert [one.path for one in mounted([BARE, DATA], [UUID[::-1], UUID])] == ["/srv/my-db"]
    with pytest.raises(ValueError, match="shorter"):
        mounted([BARE, DATA], [UUID])


def test_the_label_comes_from_the_id_and_fits_every_filesystem() -> None:
    link = MachineVolume.parse({"selfLink": "vsphere-volume://eu-1/fast/data-1", "mountPath": "/a"})
    labels = [one.label for one in mounted([DATA, link, LOGS], [UUID] * 3)]
    assert labels[0] == labels[1] == "v-51bbfa74f8", "printf data-1 | sha256sum | cut -c1-10"
    assert all(re.fullmatch("v-[0-9a-f]{10}", label) for label in labels)


def test_a_volume_is_formatted_if_it_is_empty_and_then_mounted_before_what_needs_files() -> None:
    units = unit_files(mounted([DATA], [SPACED]))
    assert units.keys() == {f"format-volume-{UUID}.service", r"srv-my\x2ddb.mount"}
    mount, service = unit_of(units[r"srv-my\x2ddb.mount"]), unit_of(units[f"format-volume-{UUID}.service"])
    assert dict(mount["Mount"]) == {"What": DEVICE, "Where": "/srv/my-db", "Options": "rw"}
    assert mount["Unit"]["Requires"] == mount["Unit"]["After"] == f"format-volume-{UUID}.service"
    assert mount["Install"]["WantedBy"] == "local-fs.target", (
        "wanted: a disk that does not come is no emergency"
    )
    device = rf"dev-disk-by\x2did-wwn\x2d0x{UUID}.device"
    assert service["Unit"]["Requires"] == device
    assert device in service["Unit"]["After"].split()
    assert service["Unit"]["DefaultDependencies"] == "no", "or it waits for what waits for it"
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["ExecStart"] == f"/bin/sh {FORMATTER} {DEVICE} ext4 v-51bbfa74f8"


def test_a_read_only_volume_is_mounted_so_and_nothing_formats_it() -> None:
    units = unit_files(mounted([LOGS], [UUID]))
    assert units.keys() == {"logs.mount"}
    mount = unit_of(units["logs.mount"])
    assert mount["Mount"]["Options"] == "ro"
    assert mount["Unit"].keys() == {"Description"}
    assert FORMATTER not in boothook(mounted([LOGS], [UUID]))


def test_no_name_of_a_volume_reaches_a_unit_or_a_script() -> None:
    assert "$(x)" not in boothook(mounted([LOGS, DATA], [UUID, UUID[::-1]]))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data", "data"),
        ("/a/b", "a-b"),
        ("/a-b/c_d.e", r"a\x2db-c_d.e"),
        ("/.a/.b", r"\x2ea-.b"),
        (DEVICE, rf"dev-disk-by\x2did-wwn\x2d0x{UUID}"),
    ],
)
def test_units_have_the_names_that_systemd_demands(path: str, name: str) -> None:
    """As systemd-escape --path writes them."""
    assert escaped(path) == name


def test_the_boothook_installs_all_once_and_mends_what_was_changed(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    volumes = mounted([DATA, LOGS], [UUID, UUID[::-1]])
    asked = [rf"{verb} srv-my\x2ddb.mount logs.mount" for verb in ("enable", "start")]
    assert guest.boot(boothook(volumes)) == ["daemon-reload", *asked]
    folder = tmp_path / "etc/systemd/system"
    there = {file.name: file.read_text() for file in folder.iterdir()}
    assert there == {name: guest.moved(text) for name, text in unit_files(volumes).items()}
    assert (tmp_path / FORMATTER.strip("/")).read_text() == script()
    assert guest.boot(boothook(volumes)) == [], "a later boot needs it no more"
    (folder / "logs.mount").unlink()
    assert guest.boot(boothook(volumes)) == ["daemon-reload", *asked]


def test_v32_what_the_boothook_installs_formats_an_empty_disk_and_later_leaves_its_data(
    tmp_path: Path,
) -> None:
    first, second = Guest(tmp_path / "first"), Guest(tmp_path / "second")
    disk = tmp_path / "disk"
    with disk.open("wb") as made:
        made.truncate(2**23)
    for guest in (first, second):
        guest.plug(disk, UUID)
        guest.boot(boothook(mounted([DATA], [SPACED])))
    first.format()
    assert first.shows(disk) == {"LABEL": "v-51bbfa74f8", "TYPE": "ext4"}
    with disk.open("r+b") as written:
        written.seek(-4096, os.SEEK_END)
        written.write(b"data that was paid for")
    before = disk.read_bytes()
    second.format()
    assert disk.read_bytes() == before
