"""The gateway under test, opened on a simulated vCenter, and ways to take its session away."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Endpoint, Session


def endpoint(vcenter: SimulatedVCenter, port: int | None = None, **more: Any) -> Endpoint:
    """Where the vCenter is, or the proxy before it at `port`, trusted by its own certificate."""
    url = vcenter.url if port is None else f"https://127.0.0.1:{port}/sdk"
    return Endpoint(url, **{"ca_file": vcenter.ca_file, **more})


@contextmanager
def opened(vcenter: SimulatedVCenter, port: int | None = None, **more: Any) -> Iterator[Session]:
    """A session that is closed at the end; `more` are parts of the endpoint."""
    session = Session(endpoint(vcenter, port, **more), vcenter.username, vcenter.password)
    try:
        yield session
    finally:
        session.close()


def other_sessions(admin: Session) -> list[str]:
    """The keys of all sessions but the admin's."""
    manager = admin.content["sessionManager"]
    row = admin.read([manager], {manager.type: ["sessionList", "currentSession"]})[manager]
    return [one["key"] for one in row["sessionList"] if one["key"] != row["currentSession"]["key"]]


def terminate(admin: Session, keys: list[str]) -> None:
    """End sessions, as an operator or a time-out would."""
    admin.call(admin.content["sessionManager"], "TerminateSession", sessionId=keys)


def end_other_sessions(admin: Session) -> int:
    """Terminate every session but the admin's; say how many."""
    others = other_sessions(admin)
    if others:
        terminate(admin, others)
    return len(others)


def machine(session: Session, name: str) -> Ref:
    """The VM of that name in DC0."""
    rows = session.scan({"VirtualMachine": ["name"]})
    return next(ref for ref, row in rows.items() if row["name"] == name)


def error_of(call: Any, *arguments: Any, **more: Any) -> CallError:
    """The CallError that a call ends in."""
    try:
        outcome = call(*arguments, **more)
    except CallError as error:
        return error
    raise AssertionError(f"it gave {outcome!r} and no error")
