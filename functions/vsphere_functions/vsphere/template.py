"""Find the template that a spec means: by path, reference, uuid, or by a name that only one has."""

import re
from uuid import UUID

from vsphere_functions.vsphere.atlas import Atlas
from vsphere_functions.vsphere.names import escape, unescape
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.vcenter import VCenter

_REFERENCE = re.compile(r"vm-\d+")
_NAMED = ("name", "parent", "config.template")


def find_template(
    vcenter: VCenter, atlas: Atlas, datacenter: Ref, given: str
) -> tuple[Ref | None, list[str]]:
    """Return the VM at a path below the datacenter's VM folder, else what the text can mean otherwise.

    None, with the paths of all that it can mean, when they are several; None without paths when there is nothing.
    A name means templates of the datacenter only; a reference or uuid any VM, one of the datacenter first.
    """
    found = _at_path(vcenter, atlas, datacenter, given)
    if found is not None:
        return found, []
    hits = _meant(vcenter, datacenter, given)
    for ref, row in hits.items():
        atlas.remember(ref, row)
    inside = [ref for ref in hits if atlas.datacenter(ref) == datacenter] or list(hits)
    if len(inside) == 1:
        return inside[0], []
    return None, ["/".join(atlas.path(ref)) for ref in inside]


def templates_near(vcenter: VCenter, atlas: Atlas, datacenter: Ref, given: str) -> list[str]:
    """Return the paths of what could be meant instead: the VMs of the folder that is named, else all templates."""
    parts = tuple(part for part in given.split("/") if part)
    for way in filter(None, (parts, parts[:-1])):
        for folder in atlas.called(("Folder",), datacenter, "/".join(way)):
            if atlas.path(folder) == way and (there := _paths(vcenter, atlas, folder, inside=True)):
                return there
    return _paths(vcenter, atlas, datacenter, inside=False)


def _paths(vcenter: VCenter, atlas: Atlas, below: Ref, *, inside: bool) -> list[str]:
    """Return the paths of the VMs that lie directly `inside` a folder, or of all templates below an object."""
    rows = vcenter.scan({"VirtualMachine": _NAMED}, below)
    wanted = {
        ref: row
        for ref, row in rows.items()
        if row.get("name") and (row.get("parent") == below if inside else row.get("config.template"))
    }
    for ref, row in wanted.items():
        atlas.remember(ref, row)
    return ["/".join(atlas.path(ref)) for ref in wanted]


def _at_path(vcenter: VCenter, atlas: Atlas, datacenter: Ref, given: str) -> Ref | None:
    parts = (part for part in given.split("/") if part)
    path = "/".join(escape(part) for part in (*atlas.full_path(datacenter), "vm", *parts))
    index = vcenter.session.content["searchIndex"]
    found: Ref | None = vcenter.ask(index, "FindByInventoryPath", inventoryPath=path)
    return found if found is not None and found.type == "VirtualMachine" else None


def _meant(vcenter: VCenter, datacenter: Ref, given: str) -> dict[Ref, Row]:
    if _REFERENCE.fullmatch(given):
        return vcenter.read([Ref("VirtualMachine", given)], {"VirtualMachine": _NAMED})
    uuid = _uuid(given)
    if uuid is not None:
        return vcenter.read(_of_uuid(vcenter, uuid), {"VirtualMachine": _NAMED})
    if "/" in given:
        return {}
    rows = vcenter.scan({"VirtualMachine": _NAMED}, datacenter)
    return {
        ref: row
        for ref, row in rows.items()
        if row.get("config.template") and unescape(row.get("name", "")) == given
    }


def _uuid(given: str) -> str | None:
    try:
        return str(UUID(given))
    except ValueError:
        return None


def _of_uuid(vcenter: VCenter, uuid: str) -> list[Ref]:
    """Return the VMs of that instance uuid, or if there is none, of that BIOS uuid."""
    index = vcenter.session.content["searchIndex"]
    for instance in (True, False):
        found: list[Ref] = vcenter.ask(
            index, "FindAllByUuid", uuid=uuid, vmSearch=True, instanceUuid=instance
        )
        if found:
            return found
    return []
