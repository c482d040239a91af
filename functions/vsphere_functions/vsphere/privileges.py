"""What an account may do, asked of vCenter before anything is begun."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.privilege_table import MACHINE_LIFE, On, When, needed
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.resolve import Resolved
from vsphere_functions.vsphere.session import Session
from vsphere_functions.vsphere.vcenter import VCenter


class Missing(NamedTuple):
    """A privilege that the account lacks, and the name of the object that it lacks it on."""

    privilege: str
    object: str


def missing_privileges(vcenter: VCenter, found: Resolved) -> list[Missing]:
    """Ask which privileges of a machine's whole life the account lacks where it goes (one call and a read)."""
    wanted = dict(_wanted(vcenter, found))
    lacking = lacking_of(vcenter.session, wanted)
    return [
        Missing(privilege, _name(found, ref))
        for ref, privileges in wanted.items()
        for privilege in privileges
        if (ref, privilege) in lacking
    ]


def lacking_of(session: Session, wanted: Mapping[Ref, tuple[str, ...]]) -> set[tuple[Ref, str]]:
    """Ask which of the privileges the session's user lacks on which objects; of each object all are asked.

    Source: AuthorizationManager.HasUserPrivilegeOnEntities of the vSphere API.
    """
    answer = session.call(
        session.content["authorizationManager"],
        "HasUserPrivilegeOnEntities",
        repeatable=True,
        entities=list(wanted),
        userName=_user(session),
        privId=sorted({privilege for privileges in wanted.values() for privilege in privileges}),
    )
    kinds = {ref.id: ref for ref in wanted}
    return {
        (kinds[one.entity._GetMoId()], each.privId)  # noqa: SLF001 - public there
        for one in answer
        for each in one.privAvailability
        if not each.isGranted
    }


def refuse_missing(vcenter: VCenter, found: Resolved) -> None:
    """Refuse to begin what would stop half-way: PermissionDenied, naming every privilege and its object."""
    missing = missing_privileges(vcenter, found)
    if missing:
        details = [Detail(f"privilege {one.privilege} is missing on {one.object}") for one in missing]
        told = "; ".join(detail.reason for detail in details)
        raise CallError(Code.PERMISSION_DENIED, f"{told}; nothing was changed", details=details)


def _wanted(vcenter: VCenter, found: Resolved) -> Iterator[tuple[Ref, tuple[str, ...]]]:
    when = frozenset(_conditions(found))
    places: tuple[tuple[On, Ref | None], ...] = (
        (On.ROOT, vcenter.session.content["rootFolder"]),
        (On.TEMPLATE, found.template),
        (On.FOLDER, found.folder),
        (On.POOL, found.pool),
        (On.STORAGE, found.storage),
        *((On.NETWORK, network) for network in found.networks),
    )
    for on, ref in places:
        if ref is not None:
            yield ref, needed(on, MACHINE_LIFE, when)


def _conditions(found: Resolved) -> Iterator[When]:
    template = found.atlas.rows.get(found.template, {}) if found.template else {}
    yield When.PLAIN if template.get("config.template") is False else When.TEMPLATE
    spec = found.spec
    if spec is None:
        return
    if spec.customization is not None:
        yield When.CUSTOMIZED
    if spec.volumes:
        yield When.VOLUMES
    if _reserves(spec):
        yield When.RESERVED
    if len(spec.networks) > 1:
        yield When.CARDS
    if spec.vapp is not None:
        yield When.VAPP


def _reserves(spec: CreateSpec) -> bool:
    return bool(
        spec.cpu_allocation or spec.memory_allocation or spec.memory_reservation_locked_to_max is not None
    )


def _user(session: Session) -> str:
    manager = session.content["sessionManager"]
    row = session.read([manager], {"SessionManager": ["currentSession"]})[manager]
    name: str = row["currentSession"]["userName"]
    return name


def _name(found: Resolved, ref: Ref) -> str:
    return "/".join(found.atlas.full_path(ref)) if ref in found.atlas.rows else "the root folder"
