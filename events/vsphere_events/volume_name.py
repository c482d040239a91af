"""How a volume is named on the wire: its id, its store, and the link that holds both."""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import AfterValidator

from vsphere_events.model import plain

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
_TAIL = re.compile(r"-(flat|delta|sesparse|ctk|rdm|rdmp|digest|[0-9]{6})$", re.ASCII)  # vSphere's own files
_STORE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_VMDK = re.compile(r"\[[^\[\]]+\] ?([^\[\]]+\.vmdk)")
LINK = re.compile(r"vsphere-volume://([a-z0-9][a-z0-9-]{0,62})/([^/]+)(?:/([^/]+))?", re.ASCII)
"""A link to a store or, with a third part, to a volume: vCenter, store, id."""


def _volume_id(text: str) -> str:
    if not _ID.fullmatch(text) or _TAIL.search(text):
        raise ValueError(
            "should be 1 to 100 letters, digits, dots, underscores and dashes, starting with a letter "
            "or digit, not ending like one of vSphere's own disk files"
        )
    return text


def _store(text: str) -> str:
    link = LINK.fullmatch(text)
    if not _STORE.fullmatch(link[2] if link and not link[3] else text):
        raise ValueError("should be the name of a store, or vsphere-volume://<vcenter>/<store>")
    return text


def _self_link(text: str) -> str:
    link = LINK.fullmatch(text)
    if not link or not link[3] or not _STORE.fullmatch(link[2]):
        raise ValueError("should be vsphere-volume://<vcenter>/<store>/<id>")
    _volume_id(link[3])
    return text


def _vmdk_path(text: str) -> str:
    for read in (text, unquote(text)):  # who decodes what needs no decoding is not led elsewhere either
        found = _VMDK.fullmatch(plain(read))
        if not found or {"", ".", ".."} & set(found[1].split("/")) or "\\" in read:
            raise ValueError("should be `[datastore] folder/disk.vmdk`, without . and .. and \\")
    if _TAIL.search(text.removesuffix(".vmdk")):
        raise ValueError("is one of vSphere's own files and not the descriptor of a disk")
    return text


VolumeID = Annotated[str, AfterValidator(_volume_id)]
Store = Annotated[str, AfterValidator(_store)]
SelfLink = Annotated[str, AfterValidator(_self_link)]
VmdkPath = Annotated[str, AfterValidator(_vmdk_path)]
"""A disk by its place: `[datastore] folder/disk.vmdk`."""
