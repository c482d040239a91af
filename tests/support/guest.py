"""A guest's folders, and what of a boot concerns volumes: what cloud-init, Ignition and systemd would run."""

import json
import shutil
import subprocess
from base64 import b64decode
from configparser import ConfigParser
from pathlib import Path
from typing import Any

_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_BLKID = shutil.which("blkid", path=_PATH) or "blkid"


class Unit(ConfigParser):
    """A unit file; its keys have capitals."""

    def optionxform(self, optionstr: str) -> str:
        """Keep a key as it is spelt."""
        return optionstr


def unit_of(text: str) -> Unit:
    """Read a unit file."""
    unit = Unit(interpolation=None, strict=True)
    unit.read_string(text)
    return unit


class Guest:
    """A guest's /etc and its disks in a folder; systemctl notes what it is told and starts nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = root / "tools"
        self.tools.mkdir(parents=True)
        self.log = root / "systemctl.log"
        self.log.touch()
        self._tool("systemctl", f'echo "$@" >>"{self.log}"')
        self._tool("blockdev", 'exec stat -L -c %s "$2"')
        (root / "dev/disk/by-id").mkdir(parents=True)

    def _tool(self, name: str, body: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def moved(self, text: str) -> str:
        """Lead what is meant for the guest's own folders to these."""
        return text.replace("/etc/", f"{self.root}/etc/").replace("/dev/disk/", f"{self.root}/dev/disk/")

    def run(self, command: list[str]) -> list[str]:
        """Run something, and return what systemctl was told meanwhile."""
        self.log.write_text("")
        subprocess.run(
            command, env={"PATH": f"{self.tools}:{_PATH}"}, check=True, capture_output=True, timeout=60
        )
        return self.log.read_text().splitlines()

    def boot(self, hook: str) -> list[str]:
        """Run a boothook as cloud-init does: without its first line, which only tells what it is."""
        kind, _, body = hook.partition("\n")
        assert kind == "#cloud-boothook"
        assert body.startswith("#!/bin/sh\n")
        place = self.root / "part-001"
        place.write_text(self.moved(body))
        place.chmod(0o700)
        return self.run([str(place)])

    def ignite(self, config: str) -> None:
        """Write the files and units of an Ignition config, as Ignition does."""
        told: Any = json.loads(config)
        texts = {one["path"]: _read(one["contents"]["source"]) for one in told["storage"]["files"]}
        texts |= {f"/etc/systemd/system/{one['name']}": one["contents"] for one in told["systemd"]["units"]}
        for path, text in texts.items():
            place = self.root / path.strip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.moved(text))

    def plug(self, disk: Path, uuid: str) -> None:
        """Let a disk appear as udev does."""
        (self.root / f"dev/disk/by-id/wwn-0x{uuid}").symlink_to(disk)

    def format(self) -> None:
        """Run what the units start that format."""
        for unit in (self.root / "etc/systemd/system").glob("format-volume-*.service"):
            self.run(unit_of(unit.read_text())["Service"]["ExecStart"].split())

    def shows(self, disk: Path) -> dict[str, str]:
        """What blkid shows of a disk."""
        asked = [_BLKID, "-p", "-o", "export", "-s", "TYPE", "-s", "LABEL", str(disk)]
        said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        pairs = (line.partition("=") for line in said.splitlines())
        return {name: value for name, _, value in pairs if name != "DEVNAME"}


def _read(source: str) -> str:
    return b64decode(source.partition("base64,")[2]).decode()
