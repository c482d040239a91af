"""What a guest is told of its volumes: systemd units that format an empty disk and mount it, at every boot."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Self

from vsphere_events.machine_volume import MachineVolume

FORMATTER = "/etc/vsphere-functions/format-volume"
"""Where the guest has the script that formats; it is handed to the shell, so it need not be executable."""

_ESCAPED = re.compile(r"[^A-Za-z0-9:_./]|(?<=\A/)\.", re.ASCII)

_HOOK = """\
#cloud-boothook
#!/bin/sh
changed=
put() {
    text=$(cat)
    [ "$(cat "$1" 2>/dev/null)" != "$text" ] || return 0
    mkdir -p "${1%/*}"
    printf '%s\\n' "$text" >"$1"
    changed=yes
}
"""

_START = """\
[ -n "$changed" ] || exit 0
systemctl daemon-reload
systemctl enable {mounts}
systemctl start {mounts}
"""


@dataclass(frozen=True, slots=True)
class GuestVolume:
    """A volume as its guest sees it.

    `uuid` is its disk's, 32 hex digits. The disk is found by it, and by no letter or slot: with disk.EnableUUID
    it stands in the disk's VPD page 0x83, from which udev makes /dev/disk/by-id/wwn-0x….
    """

    name: str
    uuid: str
    path: str
    filesystem: str
    read_only: bool

    @classmethod
    def of(cls, volume: MachineVolume, uuid: str) -> Self:
        """Take a volume with a mountPath, and its disk's uuid in any of vSphere's spellings; else ValueError."""
        digits = re.sub("[ -]", "", uuid).lower()
        if not re.fullmatch("[0-9a-f]{32}", digits):
            raise ValueError(f"not the uuid of a disk: {uuid!r}")
        return cls(volume.name, digits, volume.mount_path or "", volume.filesystem, volume.read_only)

    @property
    def label(self) -> str:
        """The label of the filesystem: `v-` and ten digits of the SHA-256 of the id; XFS takes no more than 12."""
        return "v-" + sha256(self.name.encode()).hexdigest()[:10]

    @property
    def device(self) -> str:
        """The disk's path in the guest."""
        return f"/dev/disk/by-id/wwn-0x{self.uuid}"

    @property
    def mount_unit(self) -> str:
        """The name of the unit that mounts it; systemd demands this one for the path."""
        return f"{escaped(self.path)}.mount"

    @property
    def format_unit(self) -> str:
        """The name of the unit that formats it."""
        return f"format-volume-{self.uuid}.service"

    def units(self) -> dict[str, str]:
        """Return its unit files by name; a read-only volume has none that formats."""
        if self.read_only:
            return {self.mount_unit: self._mount()}
        return {self.format_unit: self._format(), self.mount_unit: self._mount()}

    def _mount(self) -> str:
        """Mount what is there, whatever its type: `filesystem` is for an empty disk.

        A disk that does not come fails this unit after systemd's 90 s, and not the boot.
        """
        after = [] if self.read_only else [f"Requires={self.format_unit}", f"After={self.format_unit}"]
        return _lines(
            "[Unit]",
            f"Description=Volume {self.label} on {self.path}",
            *after,
            "",
            "[Mount]",
            f"What={self.device}",
            f"Where={self.path}",
            f"Options={'ro' if self.read_only else 'rw'}",
            "",
            "[Install]",
            "WantedBy=local-fs.target",
        )

    def _format(self) -> str:
        """Without default dependencies: it is part of what comes before the basic system."""
        device = f"{escaped(self.device)}.device"
        return _lines(
            "[Unit]",
            f"Description=Format volume {self.label} if it is empty",
            "DefaultDependencies=no",
            f"Requires={device}",
            f"After={device} local-fs-pre.target",
            "Conflicts=shutdown.target",
            "Before=shutdown.target",
            "",
            "[Service]",
            "Type=oneshot",
            "RemainAfterExit=yes",
            f"ExecStart=/bin/sh {FORMATTER} {self.device} {self.filesystem} {self.label}",
        )


def mounted(volumes: Sequence[MachineVolume], uuids: Sequence[str]) -> tuple[GuestVolume, ...]:
    """Return those volumes that have a mountPath; `uuids` are the disks' of all of them, in their order."""
    pairs = zip(volumes, uuids, strict=True)
    return tuple(GuestVolume.of(volume, uuid) for volume, uuid in pairs if volume.mount_path)


def script() -> str:
    """Return the script that formats a disk if it is empty."""
    return (files("vsphere_functions.bootstrap") / "format_volume.sh").read_text("utf-8")


def unit_files(volumes: Iterable[GuestVolume]) -> dict[str, str]:
    """Return the unit files of volumes by name."""
    return {name: text for volume in volumes for name, text in volume.units().items()}


def boothook(volumes: Sequence[GuestVolume]) -> str:
    """Return a cloud-init boothook that installs the script and the units, and starts them when they are new.

    Starting them blocks until they are mounted, so that what follows in cloud-init sees the volumes.
    """
    texts = {FORMATTER: script()} if any(not volume.read_only for volume in volumes) else {}
    texts |= {f"/etc/systemd/system/{name}": text for name, text in unit_files(volumes).items()}
    mounts = " ".join(f"'{volume.mount_unit}'" for volume in volumes)
    puts = "".join(f"put '{path}' <<'END OF FILE'\n{text}END OF FILE\n" for path, text in texts.items())
    return _HOOK + puts + _START.format(mounts=mounts)


def escaped(path: str) -> str:
    """Turn an absolute path into the name of a unit, as systemd.unit(5) has it."""
    text = _ESCAPED.sub(lambda found: f"\\x{ord(found[0]):02x}", path)
    return text.strip("/").replace("/", "-")


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
