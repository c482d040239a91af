"""A folder of generated files with a list of their digests; what is there and was not written so is somebody's own."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from pathlib import Path

LIST = "vsphere-functions.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  ((?:\w[\w.-]*/)*\w[\w.-]*)")


class Act(Enum):
    """What is to be done about a file."""

    WRITE = auto()
    DELETE = auto()
    KEEP = auto()


def with_list(files: Mapping[str, str]) -> dict[str, str]:
    """Add the list, as sha256sum has it; it comes last, so that a run that is cut short claims nothing."""
    lines = (f"{_digest(text.encode())}  {name}\n" for name, text in sorted(files.items()))
    return {**files, LIST: "".join(lines)}


def acts(folder: Path, wanted: Mapping[str, str]) -> Iterator[tuple[str, Act]]:
    """Compare a folder with what is wanted; only what was written by an earlier run, unchanged, may be lost."""
    written = _written(folder)
    for name in sorted(written.keys() - wanted.keys()):
        there = _read(folder / name)
        if there is not None:
            yield name, Act.DELETE if _digest(there) in written[name] else Act.KEEP
    for name, text in wanted.items():
        there = _read(folder / name)
        if there != text.encode():
            ours = there is None or name == LIST or _digest(there) in written.get(name, ())
            yield name, Act.WRITE if ours else Act.KEEP


def settle(file: Path, act: Act, text: str | None) -> str:
    """Do it, and say what people should know; without a text the file is no longer generated."""
    if act is Act.DELETE:
        file.unlink()
        return f"deleted: {file}, which is no longer generated\n"
    if text is None:
        return f"kept: {file}, which is no longer generated, but was edited\n"
    if act is Act.KEEP:
        return f"kept: {file}, which was edited; to have it written anew, move it away and run this again\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return ""


def _written(folder: Path) -> dict[str, set[str]]:
    """Give the digests of what was written; after a merge a file may have several."""
    found: dict[str, set[str]] = {}
    for line in (_read(folder / LIST) or b"").decode(errors="replace").splitlines():
        if match := _LINE.fullmatch(line):
            found.setdefault(match[2], set()).add(match[1])
    return found


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
