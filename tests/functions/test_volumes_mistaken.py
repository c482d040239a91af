"""Metadata that say what is not so: copied by hand from another volume, too large, or of odd contents."""

import json
from typing import Any

import pytest

from support import machines
from support.gateway import error_of
from support.scene import Scene
from support.volumes import GIB, attach, create, detach, files_of, found_store, get, listing, resize
from vsphere_events.code import Code
from vsphere_events.volume import VolumeState
from vsphere_functions.vsphere import metadata
from vsphere_functions.vsphere.metadata import Metadata


@pytest.fixture
def twin(on: Scene) -> str:
    """A volume with the metadata of the first one, whose disk it names therefore."""
    made = f"twin-of-{on.volume}"
    create(on.ctx, made)
    files, folder = files_of(on.ctx), found_store(on.ctx).folder
    body = files.read(folder / on.volume / metadata.FILE)
    assert body
    files.write(folder / made / metadata.FILE, body)
    return made


def write(on: Scene, body: bytes) -> None:
    """Put something in the place of the volume's metadata."""
    files_of(on.ctx).write(found_store(on.ctx).folder / on.volume / metadata.FILE, body)


def test_another_volumes_disk_is_neither_taken_off_nor_grown(on: Scene, twin: str) -> None:
    attach(on.ctx, on.volume)
    detach(on.ctx, twin)
    assert on.disk in on.paths()
    failed = error_of(resize, on.ctx, 2 * GIB, twin)
    assert (failed.code, failed.details[0].candidates) == (Code.FAILED_PRECONDITION, ("worker-1",))
    sizes = {disk.backing.fileName: disk.capacityInKB for disk in on.soap.disks(on.machine())}
    assert sizes[on.disk] == GIB
    assert get(on.ctx, on.volume).attached_to == ("worker-1",)


def test_another_volumes_disk_is_not_taken_for_one_that_is_attached_already(on: Scene, twin: str) -> None:
    attach(on.ctx, on.volume)
    attach(on.ctx, twin)
    assert any(path.endswith(f"/{twin}.vmdk") for path in on.paths())
    machines.create(on.ctx, "worker-2")
    failed = error_of(attach, on.ctx, twin, "worker-2")
    assert failed.code is Code.FAILED_PRECONDITION


def test_what_is_too_large_for_metadata_is_not_read(on: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was moved over them would fill the memory of each worker that looks."""
    monkeypatch.setattr(metadata, "LARGEST", 4096)
    write(on, b" " * 4097)
    told = get(on.ctx, on.volume)
    assert (told.state, told.reason) == (VolumeState.DEGRADED, "its metadata is too large to be any")
    assert on.volume in {one.tag for one in listing(on.ctx).degraded}
    assert error_of(attach, on.ctx, on.volume).code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize("info", [{"a": 1}, {"a": None}, {"a": {"b": "QQ=="}}])
def test_an_info_that_nobody_can_tell_breaks_no_list(on: Scene, info: dict[str, Any]) -> None:
    told = json.loads(Metadata(GIB, {}, "2026-01-01T00:00:00+00:00", "0" * 32).render())
    told = {**told, "info": info}
    del told["checksum"]
    write(on, json.dumps({**told, "checksum": metadata._checksum(told)}).encode())
    assert get(on.ctx, on.volume).state is VolumeState.DEGRADED
    assert on.volume in {one.tag for one in listing(on.ctx).degraded}
