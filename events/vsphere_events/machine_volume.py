"""The volumes of a machine, as a provider spec describes them, and where its guest mounts them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from vsphere_events.model import Bool, Model
from vsphere_events.volume_name import LINK, SelfLink, Store, VmdkPath, VolumeID

MOST_VOLUMES = 59
"""Four controllers have room for 60 disks, and the first disk is the machine's own."""

_PATH = re.compile(r"(/[A-Za-z0-9_.-]+)+", re.ASCII)
"""Characters that mean nothing to a shell, to YAML and to systemd, but for `-`, which unit names escape."""

_SYSTEM = frozenset(
    [
        *("/bin", "/boot", "/dev", "/efi", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run"),
        *("/sbin", "/sys", "/usr", "/var/lock", "/var/run"),
        *("/tmp", "/var/tmp"),  # noqa: S108 - refused here, not used
        *("/var/lib/cloud", "/var/lib/dpkg", "/var/lib/rpm", "/var/lib/systemd"),
    ]
)
"""Where the system itself lies, or whose old files it deletes: nothing is mounted there, nor below."""

_PARENTS = frozenset({"/var", "/var/lib"})
"""Below these there is room, but over them the system would lose what it knows."""

_LONGEST = 240
"""Of the 255 bytes that a file name has, the unit of a mount needs some for its ending."""


def _mount_path(text: str) -> str:
    """Take an absolute path in its one spelling that a guest can mount something on."""
    names = text.split("/")[1:]
    if not _PATH.fullmatch(text) or {".", ".."} & set(names):
        raise ValueError("should be an absolute path of letters, digits and _ . -, without . and .. and //")
    if text in _PARENTS or any("/" + "/".join(names[:at]) in _SYSTEM for at in (1, 2, 3)):
        raise ValueError("belongs to the system of the guest")
    if len(text) + 3 * text.count("-") > _LONGEST:
        raise ValueError("is too long to mount; a - counts four times")
    return text


class MachineVolume(Model):
    """A volume to attach: by id (and store), by selfLink or by vmdk path; and where the guest mounts it.

    Without a mountPath the guest is told nothing. `filesystem` is what an empty disk is formatted with; one that
    is not empty is never formatted, nor is one that is `readOnly`.
    """

    id: VolumeID | None = None
    store: Store | None = None
    self_link: SelfLink | None = None
    vmdk_path: VmdkPath | None = None
    mount_path: Annotated[str, AfterValidator(_mount_path)] | None = None
    filesystem: Literal["ext4", "xfs"] = "ext4"
    read_only: Bool = False

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand exactly one way to name the volume."""
        if sum(bool(given[name]) for name in ("id", "self_link", "vmdk_path")) != 1:
            yield "id", "give exactly one of id (and store), selfLink and vmdkPath"
        if given["store"] and not given["id"]:
            yield "store", "goes with id"

    @property
    def name(self) -> str:
        """What the volume is called wherever it is attached: its id, or the path of its disk."""
        return self.id or (self.self_link or "").rpartition("/")[2] or self.vmdk_path or ""


def mounts(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (field, reason) for what is wrong between raw volumes, and between them and the rest of a raw spec."""
    volumes = given["volumes"]
    volumes = [_raw(one) for one in volumes[:MOST_VOLUMES]] if isinstance(volumes, Sequence) else []
    yield from _doubles(volumes)
    paths = [one.get("mountPath") for one in volumes]
    yield from _places(paths)
    if any(paths):
        yield from _ways(given, paths)


def _doubles(volumes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    seen = set()
    for at, volume in enumerate(volumes):
        field, key = _key(volume)
        if key in seen:
            yield f"volumes.{at}.{field}", "is given twice"
        seen |= {key} if key else set()


def _key(volume: Mapping[str, Any]) -> tuple[str, object]:
    """Return what names a volume: the field, and its value in a form that shows the same one twice."""
    link = LINK.fullmatch(str(volume.get("selfLink")))
    if link:
        return "selfLink", (link[2], link[3])
    if volume.get("id"):
        return "id", (str(volume.get("store") or "default").rpartition("/")[2], str(volume["id"]))
    path = volume.get("vmdkPath")
    return "vmdkPath", path if isinstance(path, str) else None


def _places(paths: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Refuse a path that comes twice, and one whose parent comes after it: the parent would hide it."""
    for at, path in enumerate(paths):
        for later, other in enumerate(paths[at + 1 :], at + 1):
            if not isinstance(path, str) or not isinstance(other, str):
                continue
            if path == other:
                yield f"volumes.{later}.mountPath", "is given twice"
            elif path.startswith(other + "/"):
                yield (
                    f"volumes.{at}.mountPath",
                    f"lies below that of volume {later}, which has to come before it",
                )


def _ways(given: Mapping[str, Any], paths: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Refuse what keeps a guest from being told of its volumes, or from finding their disks."""
    if given["bootstrap"] == "none":
        for at, path in enumerate(paths):
            if path:
                yield f"volumes.{at}.mountPath", "cannot reach the guest with bootstrap none"
    options = given["extra_config"]
    for key, value in options.items() if isinstance(options, Mapping) else ():
        name = str(key).casefold()
        if name.startswith("guestinfo.vendordata"):
            yield "extraConfig", "guestinfo.vendordata tells the guest of its volumes"
        if name == "disk.enableuuid" and str(value).casefold() not in ("true", "1", "yes"):
            yield (
                "extraConfig",
                "disk.EnableUUID has to be TRUE: the guest finds its volumes by the disks' uuids",
            )


def _raw(volume: Any) -> Mapping[str, Any]:
    """Return a volume in the wire's spelling, whatever it is given as."""
    if isinstance(volume, MachineVolume):
        return volume.wire()
    return volume if isinstance(volume, Mapping) else {}
