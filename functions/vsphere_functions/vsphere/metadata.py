"""What is written down beside a volume's disk: that it is whole, and what its maker said about it."""

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Self

VERSION = 1
FILE = "volume.json"
LARGEST = 16 * 1024 * 1024
"""Bytes that metadata can have: what a request brings is a megabyte at most."""
VIC_FOLDER = "imageMetadata"
"""Where VIC keeps the info of its volumes, a file of raw bytes for each key; it keeps no size."""
_FIELDS: Mapping[str, type] = {
    "capacity_kb": int,
    "info": dict,
    "created": str,
    "uuid": str,
    "format": str,
    "origin": str,
    "operation": str,
}


@dataclass(frozen=True, slots=True)
class Metadata:
    """A whole volume: capacity in KiB, info (key → base64), when it was made (RFC 3339), its disk's uuid.

    `uuid` is 32 hex digits; `format` is how its blocks were allocated; `origin` is the uuid of the disk that it is
    a copy of, if it is one, and `operation` the request that made it. A volume of VIC's has no capacity here.
    """

    capacity_kb: int | None
    info: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    uuid: str = ""
    format: str = "thin"
    origin: str = ""
    operation: str = ""

    @property
    def digest(self) -> str:
        """What tells two infos apart."""
        return info_digest(self.info)

    def grown(self, capacity_kb: int) -> Self:
        """Return the metadata of the volume with another size; nothing else of it ever changes."""
        return replace(self, capacity_kb=capacity_kb)

    def render(self) -> bytes:
        """Write as JSON, with a checksum over the rest."""
        told = {"v": VERSION, **asdict(self)}
        return _canonical({**told, "checksum": _checksum(told)})

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Read what `render` wrote; ValueError, saying why, for anything else."""
        if not body:
            raise ValueError("its metadata is empty")
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("its metadata is cut short or no JSON") from None
        if not isinstance(told, dict) or "checksum" not in told:
            raise ValueError("its metadata was not written by this service")
        checksum = told.pop("checksum")
        if told.get("v") != VERSION:
            raise ValueError("its metadata is of another version")
        fields: dict[str, Any] = {name: told.get(name) for name in _FIELDS} | {
            "operation": told.get("operation", "")  # not written at first
        }
        sound = all(isinstance(fields[name], kind) for name, kind in _FIELDS.items())
        sound = sound and all(isinstance(one, str) for one in fields["info"].values())
        if not sound or checksum != _checksum(told):
            raise ValueError("its metadata does not match its checksum")
        return cls(**fields)

    @classmethod
    def of_vic(cls, files: Mapping[str, bytes]) -> Self:
        """Read the info of one of VIC's volumes."""
        return cls(None, {key: base64.b64encode(raw).decode() for key, raw in sorted(files.items())})


def info_digest(info: Mapping[str, str]) -> str:
    """Return what tells two infos apart, whatever the order of their keys."""
    return sha256(_canonical(dict(info))).hexdigest()


def _checksum(told: Mapping[str, Any]) -> str:
    return sha256(_canonical(told)).hexdigest()


def _canonical(told: Mapping[str, Any]) -> bytes:
    return json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
