"""The script that formats a volume in the guest, run for real with images for disks.

blkid and mkfs.ext4 are the real ones. An image is no block device, so blockdev is replaced by its size.
"""

import hashlib
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from vsphere_functions.bootstrap.volumes import script

MIB = 1024**2
SIZE = 8 * MIB
"""The spots lie so close on a disk of this size that all of it is looked at."""
TOOLS = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/bin", "/bin"))
BLKID, MKFS, DD = (shutil.which(name, path=TOOLS) or name for name in ("blkid", "mkfs.ext4", "dd"))


class Guest:
    """A folder with one disk, and the tools that the script finds before the real ones."""

    def __init__(self, folder: Path) -> None:
        self.disk = folder / "disk.img"
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.log = folder / "mkfs.log"
        self.log.touch()
        self.tool("blockdev", '[ "$1" = --getsize64 ] && exec stat -L -c %s "$2"')
        self.tool("mkfs.ext4", f'echo "$@" >>"{self.log}"; exec {MKFS} "$@"')
        self.tool("mkfs.xfs", f'echo "$@" >>"{self.log}"')
        self.script = folder / "format-volume"
        self.script.write_text(script())

    def tool(self, name: str, body: str) -> None:
        """Put a tool before the real one."""
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def blank(self, size: int = SIZE) -> None:
        """Make the disk a new one: nothing but zeros."""
        with self.disk.open("wb") as disk:
            disk.truncate(size)

    def write(self, offset: int, data: bytes) -> None:
        """Write something on the disk."""
        with self.disk.open("r+b") as disk:
            disk.seek(offset)
            disk.write(data)

    def run(self, filesystem: str = "ext4", label: str = "v-0123456789") -> subprocess.CompletedProcess[str]:
        """Run the script on the disk."""
        return subprocess.run(
            ["/bin/sh", self.script, self.disk, filesystem, label],
            env={"PATH": os.pathsep.join((str(self.tools), TOOLS))},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def digest(self) -> str:
        """What the disk holds, byte for byte."""
        return hashlib.sha256(self.disk.read_bytes()).hexdigest()

    def shows(self, tag: str) -> str:
        """What blkid shows of the disk."""
        asked = [BLKID, "-p", "-o", "value", "-s", tag, str(self.disk)]
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    made = Guest(tmp_path)
    made.blank()
    return made


def test_an_empty_disk_gets_the_filesystem_and_the_label_and_keeps_them(guest: Guest) -> None:
    done = guest.run()
    assert done.returncode == 0, done.stderr
    assert (guest.shows("TYPE"), guest.shows("LABEL")) == ("ext4", "v-0123456789")
    before, uuid = guest.digest, guest.shows("UUID")
    again = guest.run(label="v-other")
    assert again.returncode == 0
    assert "ext4" in again.stdout
    assert (guest.digest, guest.shows("UUID")) == (before, uuid)
    assert guest.log.read_text().splitlines() == [f"-q -L v-0123456789 {guest.disk}"]


def test_another_filesystem_is_made_by_its_own_tool(guest: Guest) -> None:
    assert guest.run("xfs").returncode == 0
    assert guest.log.read_text() == f"-q -L v-0123456789 {guest.disk}\n"


def _xfs() -> dict[int, bytes]:
    """A superblock of XFS: magic, block size, blocks, and the sizes that blkid looks at."""
    block = bytearray(512)
    block[0:4] = b"XFSB"
    block[4:8] = (4096).to_bytes(4, "big")
    block[8:16] = (SIZE // 4096).to_bytes(8, "big")
    block[80:84] = (4).to_bytes(4, "big")  # realtime extent
    block[84:88] = (SIZE // 4096 // 4).to_bytes(4, "big")  # blocks of a group
    block[88:92] = (4).to_bytes(4, "big")  # groups
    block[96:100] = (855).to_bytes(4, "big")  # log blocks
    block[100:102] = (0xB4A4).to_bytes(2, "big")
    block[102:104] = (512).to_bytes(2, "big")
    block[104:106] = (256).to_bytes(2, "big")
    block[106:108] = (16).to_bytes(2, "big")
    block[120:126] = bytes([12, 9, 8, 4, 13, 0])
    block[127] = 25
    block[128:136] = (64).to_bytes(8, "big")
    return {0: bytes(block)}


def _partitions() -> dict[int, bytes]:
    """A DOS partition table with one partition."""
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")
    return {446: entry, 510: b"\x55\xaa"}


def _luks() -> dict[int, bytes]:
    head = (
        b"LUKS\xba\xbe" + (1).to_bytes(2, "big") + b"aes".ljust(32, b"\0") + b"xts-plain64".ljust(32, b"\0")
    )
    return {0: head, 168: b"00000000-0000-4000-8000-000000000001"}


def _swap() -> dict[int, bytes]:
    return {1024: (1).to_bytes(4, "little") + (1000).to_bytes(4, "little"), 4086: b"SWAPSPACE2"}


KNOWN = {"xfs": _xfs(), "dos": _partitions(), "crypto_LUKS": _luks(), "swap": _swap()}


@pytest.mark.parametrize("kind", KNOWN)
def test_v32_a_disk_that_holds_something_is_not_touched(guest: Guest, kind: str) -> None:
    for offset, data in KNOWN[kind].items():
        guest.write(offset, data)
    assert kind in (guest.shows("TYPE"), guest.shows("PTTYPE")), "or the image shows nothing"
    before = guest.digest
    done = guest.run()
    assert (done.returncode, guest.digest, guest.log.read_text()) == (0, before, "")
    assert kind in done.stdout


def test_v32_data_in_a_filesystem_is_not_touched(guest: Guest) -> None:
    assert guest.run().returncode == 0
    data = random.Random(32).randbytes(MIB)
    guest.write(6 * MIB, data)
    before = guest.digest
    assert guest.run().returncode == 0
    assert guest.run("xfs").returncode == 0
    assert guest.digest == before
    assert data in guest.disk.read_bytes()


@pytest.mark.parametrize("offset", [0, 5 * MIB + 17, SIZE - 1])
def test_v32_bytes_that_no_tool_knows_are_data_too(guest: Guest, offset: int) -> None:
    guest.write(offset, b"\x01")
    before = guest.digest
    done = guest.run()
    assert (done.returncode, guest.digest, guest.log.read_text()) == (1, before, "")
    assert "left as it is: it is not empty" in done.stderr


@pytest.mark.parametrize("offset", [2**30 - 1, 33 * 2**30 + 512, 64 * 2**30 + MIB - 1])
def test_a_large_disk_is_looked_at_from_end_to_end_but_not_read_whole(guest: Guest, offset: int) -> None:
    guest.blank(64 * 2**30 + MIB)
    guest.tool("mkfs.ext4", f'echo "$@" >>"{guest.log}"')
    guest.write(offset, b"\x01")
    assert guest.run().returncode == (0 if offset == 2**30 - 1 else 1), (
        "what lies between two spots is not seen"
    )
    assert bool(guest.log.read_text()) == (offset == 2**30 - 1)


def test_a_filesystem_whose_start_is_lost_is_not_formatted_over(guest: Guest) -> None:
    assert guest.run().returncode == 0
    guest.write(0, bytes(64 * 1024))
    assert guest.shows("TYPE") == "", "blkid alone takes it for empty"
    before = guest.digest
    assert (guest.run().returncode, guest.digest) == (1, before)


@pytest.mark.parametrize(
    ("tool", "body", "said"),
    [
        ("blkid", "exit 8", "blkid cannot tell"),
        ("blkid", "exit 4", "blkid cannot tell"),
        ("blkid", "exit 1", "blkid cannot tell"),
        ("blkid", "echo something; exit 2", "contradicts itself"),
        ("blkid", "kill -9 $$", "blkid cannot tell"),
        ("blkid", 'exec /no/blkid "$@"', "blkid cannot tell"),
        ("blockdev", "exit 1", "no disk that can be read"),
        ("blockdev", "echo 0", "too small"),
        ("blockdev", "echo", "too small"),
        ("blockdev", f"echo {2 * SIZE}", "not empty"),
        ("dd", "exit 1", "not empty"),
        ("dd", "head -c 1048575 /dev/zero", "not empty"),
        ("dd", f'case "$*" in *skip=756*) exit 1 ;; *) exec {DD} "$@" ;; esac', "not empty"),
        ("tr", "exit 1", "not empty"),
        ("wc", "exit 1", "not empty"),
    ],
)
def test_a_look_that_fails_leaves_the_disk_alone(guest: Guest, tool: str, body: str, said: str) -> None:
    guest.tool(tool, body)
    before = guest.digest
    done = guest.run()
    assert (done.returncode, guest.digest, guest.log.read_text()) == (1, before, "")
    assert said in done.stderr


def test_a_disk_that_is_not_there_is_not_made(guest: Guest) -> None:
    guest.disk.unlink()
    assert guest.run().returncode == 1
    guest.tool("blockdev", f"echo {SIZE}")
    assert guest.run().returncode == 1, "blkid finds nothing where there is nothing"
    assert not guest.disk.exists()
    assert guest.log.read_text() == ""


def test_a_mkfs_that_fails_is_a_failure(guest: Guest) -> None:
    guest.tool("mkfs.ext4", "exit 3")
    assert guest.run().returncode == 3
    assert guest.run("btrfs").returncode == 127, "as a tool that the guest does not have"
