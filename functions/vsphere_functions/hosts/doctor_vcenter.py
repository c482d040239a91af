"""What `doctor` asks a vCenter: who it is, what the account may do there, whether the stores can be reached."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.hosts.findings import Finding, clock, fault, fine, now, warning
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.stores import stores_of
from vsphere_functions.vsphere.certificate import Certificate, certificate_of
from vsphere_functions.vsphere.fence import Unfenced
from vsphere_functions.vsphere.in_use import WHERE
from vsphere_functions.vsphere.places_allowed import lacking_anywhere, lacking_on_root, lacking_on_store
from vsphere_functions.vsphere.session import SERVICE, Session
from vsphere_functions.vsphere.sessions import Credentials, Sessions
from vsphere_functions.vsphere.stores import Surroundings, look_around
from vsphere_functions.vsphere.tls import thumbprint
from vsphere_functions.vsphere.vcenter import VCenter

SOON = timedelta(days=30)
_ROLES = "give it its role with infra/vcenter/roles.sh; docs/reference/privileges.md says what each is for"
_LOGIN = {
    Code.UNAUTHENTICATED: "look at the user and password; a wrong one is not tried again for a minute",
    Code.PERMISSION_DENIED: "the account may not log in; look at its roles",
    Code.INVALID_ARGUMENT: "look at vcenters.<name>.url, ca_file and thumbprint",
}
_REACH = "look whether it can be reached from here, and at ca_file and thumbprint when it is not trusted"


def examine_vcenter(settings: Settings, label: str, credentials: Credentials) -> Iterator[Finding]:
    """Look at one vCenter over a session of its own, which ends afterwards; nothing is changed."""
    part = f"vcenter {label}"
    yield from _trust(part, credentials)
    sessions = Sessions({label: lambda: credentials})
    try:
        with sessions.work() as lent:
            session = lent.get(label)
            yield from _session(part, session)
            yield from _privileges(part, session)
            yield from _stores(settings, label, session)
    except CallError as error:
        yield fault(part, f"{error.code}: {error.message}", _LOGIN.get(error.code, _REACH))
    finally:
        sessions.close()


def _trust(part: str, credentials: Credentials) -> Iterator[Finding]:
    endpoint, part = credentials.endpoint, f"{part} certificate"
    if endpoint.insecure:
        yield warning(part, "any certificate is taken", "set ca_file or thumbprint in place of insecure")
    try:
        shown = certificate_of(endpoint)
        if endpoint.thumbprint and thumbprint(endpoint.thumbprint) != shown.thumbprint:
            says = f"it is not the pinned one; its thumbprint is {shown.thumbprint}"
            yield fault(part, says, "find out whether it was renewed; if so, set vcenters.<name>.thumbprint")
    except CallError as error:
        yield fault(part, f"{error.code}: {error.message}", _LOGIN.get(error.code, _REACH))
    else:
        yield _expiry(part, shown)


def _expiry(part: str, shown: Certificate) -> Finding:
    if shown.ends is None:
        return warning(part, "its end cannot be read", "look at it with openssl s_client")
    if shown.ends <= now():
        return fault(part, "it has expired", "renew it in vCenter; a pinned thumbprint changes with it")
    says = f"it ends on {shown.ends:%Y-%m-%d}"
    if shown.ends <= now() + SOON:
        return warning(part, says, "renew it in vCenter; a pinned thumbprint changes with it")
    return fine(part, says)


def _session(part: str, session: Session) -> Iterator[Finding]:
    version = session.api_version
    before = now()
    theirs: datetime = session.call(SERVICE, "CurrentTime", repeatable=True)
    yield fine(part, f"logged in at vCenter {version}")
    yield clock(f"{part} clock", theirs, before, now())


def _privileges(part: str, session: Session) -> Iterator[Finding]:
    part = f"{part} privileges"
    on_root = lacking_on_root(session)
    nowhere = lacking_anywhere(session)
    for privilege in on_root:
        yield fault(part, f"{privilege} is missing on the root folder", _ROLES)
    for on, privileges in nowhere.items():
        said = f"no {on} was found that grants {', '.join(privileges)}"
        yield fault(part, said, _ROLES)
    if not on_root and not nowhere:
        yield fine(
            part, "the account has those of each role somewhere; `validate_machine` asks about a place"
        )


def _stores(settings: Settings, label: str, session: Session) -> Iterator[Finding]:
    stores = stores_of(settings, label, settings.vcenters[label].host)
    if not stores.own:
        return
    vcenter = VCenter(label, session, Unfenced())
    around = look_around(vcenter, stores, WHERE)
    for config in stores.own:
        yield _store(around, config.name)


def _store(around: Surroundings, name: str) -> Finding:
    part = f"store {name}"
    try:
        store = around.store(name)
    except CallError as error:
        return fault(part, f"{error.code}: {error.message}", f"look at stores.{name} and at the datastore")
    if lacking := lacking_on_store(around.vcenter.session, around.same_place(store)):
        return fault(part, f"{', '.join(lacking)} is missing on datastore {store.datastore}", _ROLES)
    says = f"{store.folder} has {store.free_kb >> 20} GiB free"
    if store.free_kb < store.config.default_kb:
        return warning(part, f"{says}: less than a volume", "make room on the datastore")
    return fine(part, says)
