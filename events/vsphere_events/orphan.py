"""The name of an orphan: it means one incarnation of a machine, or one try to make a volume, and no later one."""

import re
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from vsphere_events.model import plain

_PARTS = 4  # kind, then three that say which
_LONGEST = 1024  # of each; no name is longer
_VM = re.compile(r"vm-[0-9]+")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGEST = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class OrphanMachine:
    """A VM: its reference, its BIOS uuid, and the machine that its mark names."""

    vm: str
    uuid: str
    machine: str

    def __str__(self) -> str:
        return f"machine/{self.vm}/{self.uuid}/{self.machine}"


@dataclass(frozen=True, slots=True)
class OrphanVolume:
    """A volume's folder: its store, the volume's id, and a digest of what says whose it was."""

    store: str
    id: str
    digest: str

    def __str__(self) -> str:
        return f"volume/{self.store}/{self.id}/{self.digest}"


Orphaned: TypeAlias = OrphanMachine | OrphanVolume


def parse_orphan_id(text: object) -> Orphaned:
    """Return what an id names; ValueError for what no answer ever gave."""
    kind, *rest = plain(text).split("/", _PARTS - 1) if isinstance(text, str) else [""]
    if len(rest) == _PARTS - 1 and all(0 < len(one) <= _LONGEST for one in rest):
        if kind == "machine" and _VM.fullmatch(rest[0]) and _UUID.fullmatch(rest[1]):
            return OrphanMachine(*rest)
        if kind == "volume" and _DIGEST.fullmatch(rest[2]):
            return OrphanVolume(*rest)
    raise ValueError(
        "is no id that find_orphans gives: machine/<reference>/<uuid>/<name> or volume/<store>/<id>/<digest>"
    )


def _read(value: object) -> object:
    return value if isinstance(value, OrphanMachine | OrphanVolume) else parse_orphan_id(value)


OrphanIdField = Annotated[
    Orphaned,
    BeforeValidator(_read),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "description": "An id as `find_orphans` gives it."}),
]
