"""What an account may do on the root folder, on stores, and anywhere: asked without a machine in mind."""

from collections.abc import Iterable

from vsphere_functions.vsphere.privilege_table import PRIVILEGES, On
from vsphere_functions.vsphere.privileges import lacking_of
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Session

_MANY = 200
"""Objects of a kind that are asked about; an account with more of them has its roles on folders above."""
_KINDS = {
    On.TEMPLATE: ("VirtualMachine",),
    On.FOLDER: ("Folder",),
    On.POOL: ("ResourcePool",),
    On.STORAGE: ("Datastore", "StoragePod"),
    On.NETWORK: ("Network", "DistributedVirtualPortgroup", "OpaqueNetwork"),
}


def lacking_on_root(session: Session) -> list[str]:
    """Name the privileges that are missing on the root folder, of those that every request needs."""
    return _lacking(session, [session.content["rootFolder"]], On.ROOT)


def lacking_on_store(session: Session, datastores: Iterable[Ref]) -> list[str]:
    """Name the privileges that are missing on a store's datastore."""
    return _lacking(session, list(datastores), On.STORE)


def lacking_anywhere(session: Session) -> dict[On, list[str]]:
    """Name, by kind of object, the privileges that none of the objects grants; a kind without objects is left out."""
    rows = session.scan(
        {kind: ("name",) for kinds in _KINDS.values() for kind in kinds if kind != "VirtualMachine"}
    )
    rows |= {
        ref: row
        for ref, row in session.scan({"VirtualMachine": ("config.template",)}).items()
        if row.get("config.template")
    }
    found = {}
    for on, kinds in _KINDS.items():
        refs = [ref for ref in rows if ref.type in kinds][:_MANY]
        if refs and (lacking := _lacking(session, refs, on, everywhere=True)):
            found[on] = lacking
    return found


def _lacking(session: Session, refs: list[Ref], on: On, *, everywhere: bool = False) -> list[str]:
    """Name what is missing on one of the objects, or with `everywhere` on all of them."""
    wanted = tuple(dict.fromkeys(one.id for one in PRIVILEGES if one.on is on and one.when is None))
    lacking = lacking_of(session, dict.fromkeys(refs, wanted))
    enough = all if everywhere else any
    return [privilege for privilege in wanted if enough((ref, privilege) in lacking for ref in refs)]
