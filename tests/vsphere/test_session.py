"""The one door: one session, logins, what is sent again and what never is."""

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.gateway import end_other_sessions, endpoint, error_of, machine, opened
from support.proxy import Proxy
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere import transport
from vsphere_functions.vsphere.calls import Method
from vsphere_functions.vsphere.faults import NoAnswer, fault_name, fault_of, outcome_unknown
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Endpoint, Session, reference

NAMES = {"VirtualMachine": ["name"]}
SERVICE = Ref("ServiceInstance", "ServiceInstance")


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def session(vcenter: SimulatedVCenter) -> Iterator[Session]:
    with opened(vcenter) as made:
        yield made


@pytest.fixture
def proxy(vcenter: SimulatedVCenter) -> Iterator[Proxy]:
    with Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as made:
        yield made


def test_a_session_opens_nothing_until_it_is_used() -> None:
    session = Session(Endpoint("https://vc.invalid/sdk"), "user", "secret")
    session.close()


def test_the_service_says_what_it_is(session: Session, vcenter: SimulatedVCenter) -> None:
    assert session.api_version == "8.0.3.0"
    assert len(session.instance_uuid) == 36
    assert session.content["searchIndex"] == Ref("SearchIndex", "SearchIndex")
    assert vcenter.control.calls()["RetrieveServiceContent"] == 1


def test_refs_go_in_and_come_out(session: Session) -> None:
    index, root = session.content["searchIndex"], session.content["rootFolder"]
    center = session.call(index, "FindByInventoryPath", repeatable=True, inventoryPath="/DC0")
    assert center.type == "Datacenter"
    assert session.call(index, "FindByInventoryPath", repeatable=True, inventoryPath="/nowhere") is None
    child = session.call(index, "FindChild", repeatable=True, entity=root, name="DC0")
    assert child == center
    found = session.call(
        index, "FindAllByUuid", repeatable=True, uuid="no such uuid", vmSearch=True, instanceUuid=True
    )
    assert list(found or []) == []


def test_data_objects_stay_pyvmomis_and_hold_no_live_object(session: Session) -> None:
    alarms = session.call(session.content["alarmManager"], "GetAlarm", repeatable=True)
    assert all(isinstance(alarm, Ref) for alarm in alarms)
    assert reference(session.content["rootFolder"])._GetStub() is None


def test_an_unknown_parameter_is_refused_before_anything_is_sent(session: Session) -> None:
    with pytest.raises(TypeError, match="no parameter uid"):
        session.call(session.content["searchIndex"], "FindByUuid", uid="x")


def test_a_lost_session_between_reads_is_renewed_once(session: Session, vcenter: SimulatedVCenter) -> None:
    """M60."""
    ref = machine(session, "ubuntu-24.04")
    with opened(vcenter) as admin:
        for use in (
            lambda: session.read([ref], NAMES)[ref],
            lambda: machine(session, "ubuntu-24.04"),
            lambda: session.call(SERVICE, "CurrentTime"),
            lambda: [session.tasks(["info.state"])],
        ):
            assert end_other_sessions(admin) == 1
            vcenter.control.reset_calls()
            assert use()
            assert vcenter.control.calls()["Login"] == 1


def test_a_write_is_repeated_after_a_lost_session_since_it_was_not_done(
    session: Session, vcenter: SimulatedVCenter
) -> None:
    """M60."""
    root = session.content["rootFolder"]
    with opened(vcenter) as admin:
        end_other_sessions(admin)
        assert session.call(root, "CreateFolder", name="made").type == "Folder"


def test_absence_is_proven_by_a_live_session(session: Session, vcenter: SimulatedVCenter) -> None:
    """M60: on a lost session, an object that is not in the answer is not gone for that."""
    gone = Ref("VirtualMachine", "vm-99999")
    assert session.read([gone], NAMES) == {}
    with opened(vcenter) as admin:
        end_other_sessions(admin)
        vcenter.control.reset_calls()
        assert session.read([gone], NAMES) == {}
        assert vcenter.control.calls()["Login"] == 1


def test_a_session_that_is_lost_again_and_again_is_unavailable(
    session: Session, vcenter: SimulatedVCenter
) -> None:
    vcenter.control.add_fault("CurrentTime", "NotAuthenticated", count=2)
    assert error_of(session.call, SERVICE, "CurrentTime").code is Code.UNAVAILABLE
    assert session.call(SERVICE, "CurrentTime")


def test_two_hundred_calls_leave_one_session_and_closing_leaves_none(vcenter: SimulatedVCenter) -> None:
    """M61."""
    with opened(vcenter) as session:
        for _ in range(200):
            session.call(SERVICE, "CurrentTime", repeatable=True)
        assert vcenter.control.sessions() == 1
        assert vcenter.control.calls()["Login"] == 1
    assert vcenter.control.sessions() == 0
    error = error_of(session.call, SERVICE, "CurrentTime")
    assert error.code is Code.UNAVAILABLE
    assert "closed" in error.message


def test_a_wrong_password_is_tried_once_a_minute(vcenter: SimulatedVCenter) -> None:
    """M62."""
    clock = Clock()
    session = Session(endpoint(vcenter), vcenter.username, "not-the-password", clock=clock)
    for _ in range(100):
        error = error_of(session.read, [SERVICE], NAMES)
        assert error.code is Code.UNAUTHENTICATED
        assert fault_name(error) == "InvalidLogin"
        assert "not-the-password" not in str(error) + repr(error) + repr(error.__cause__)
    assert vcenter.control.calls()["Login"] == 1
    clock.now = 61.0
    assert error_of(lambda: session.content).code is Code.UNAUTHENTICATED
    assert vcenter.control.calls()["Login"] == 2
    session.close()


def test_a_login_that_the_server_cannot_serve_is_tried_again_at_once(
    session: Session, vcenter: SimulatedVCenter
) -> None:
    vcenter.control.add_fault("Login", "HostNotReachable", count=1)
    assert error_of(lambda: session.content).code is Code.UNAVAILABLE
    assert session.content


def test_a_server_that_answers_503_for_a_while_is_unavailable_and_then_works(
    session: Session, vcenter: SimulatedVCenter
) -> None:
    """M63."""
    root = session.content["rootFolder"]
    vcenter.control.status(503, count=3)
    error = error_of(session.read, [root], {"Folder": ["name"]})
    assert error.code is Code.UNAVAILABLE
    assert "503" in error.message
    vcenter.control.status(503, count=2)
    assert session.read([root], {"Folder": ["name"]})
    vcenter.control.status(503, count=1)
    write = error_of(session.call, root, "CreateFolder", name="one")
    assert write.code is Code.UNAVAILABLE
    assert outcome_unknown(write)


@pytest.mark.parametrize("status", [200, 500])
def test_a_page_in_html_is_unavailable(vcenter: SimulatedVCenter, status: int) -> None:
    """M63: what a reverse proxy shows while vCenter starts."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<html><body>starting &nbsp;</body></html>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(vcenter.ca_file, vcenter.key_file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with opened(vcenter, server.server_port) as session:
            assert error_of(lambda: session.content).code is Code.UNAVAILABLE
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>",
        b"<FindByUuidResponse",
        b"<FindByUuidResponse><returnval type='X'>y</returnval></FindByUuidResponse>",
    ],
)
def test_an_answer_that_is_none_is_not_taken_for_nothing_found(body: bytes) -> None:
    """M63."""
    asked = Method("FindByUuid", {"uuid": "x", "vmSearch": True})
    with pytest.raises(NoAnswer):
        asked.result(body)


def test_a_server_that_says_nothing_ends_in_unavailable_within_its_time(
    proxy: Proxy, vcenter: SimulatedVCenter
) -> None:
    """M63."""
    with opened(vcenter, proxy.port, read_timeout=0.2, connect_timeout=0.2) as session:
        root = session.content["rootFolder"]
        proxy.black_hole()
        error = error_of(session.call, root, "CreateFolder", name="x")
        assert error.code is Code.UNAVAILABLE
        assert outcome_unknown(error)
        assert not outcome_unknown(error_of(session.call, root, "CreateFolder", name="x"))
        proxy.resume()
        assert session.read([root], {"Folder": ["name"]})


def test_thirty_two_threads_share_one_session(session: Session, vcenter: SimulatedVCenter) -> None:
    """M64: and when it is lost under them, they make one new one."""
    root = session.content["rootFolder"]
    start = threading.Barrier(32)

    def work(_: int) -> set[str]:
        start.wait()
        return {session.read([root], {"Folder": ["name"]})[root]["name"] for _ in range(5)}

    with opened(vcenter) as admin, ThreadPoolExecutor(32) as threads:
        for _ in range(2):
            end_other_sessions(admin)
            vcenter.control.reset_calls()
            assert list(threads.map(work, range(32))) == [{"Datacenters"}] * 32
            assert vcenter.control.calls()["Login"] == 1
            assert vcenter.control.sessions() == 2


def test_threads_that_wait_for_a_login_share_its_failure(proxy: Proxy, vcenter: SimulatedVCenter) -> None:
    with opened(vcenter, proxy.port, connect_timeout=0.3) as session, ThreadPoolExecutor(16) as threads:
        proxy.black_hole()
        errors = list(threads.map(lambda _: error_of(lambda: session.content), range(16)))
        assert {error.code for error in errors} == {Code.UNAVAILABLE}
        assert proxy.connections <= 3 * 4


def test_a_missing_permission_names_privilege_and_object(session: Session, vcenter: SimulatedVCenter) -> None:
    """M65."""
    root = session.content["rootFolder"]
    fields = {"object": {"type": "Folder", "value": root.id}, "privilegeId": "Folder.Create"}
    vcenter.control.add_fault("CreateFolder", "NoPermission", fields=fields)
    error = error_of(session.call, root, "CreateFolder", step="make_folder", name="x")
    assert error.code is Code.PERMISSION_DENIED
    assert "Folder.Create" in error.message
    assert root.id in error.message


def test_a_fault_keeps_its_fields(session: Session) -> None:
    root = session.content["rootFolder"]
    made = session.call(root, "CreateFolder", name="twice")
    error = error_of(session.call, root, "CreateFolder", name="twice")
    assert error.code is Code.ALREADY_EXISTS
    fault = fault_of(error)
    assert fault is not None
    assert (fault.name, fault.fields["object"]) == ("DuplicateName", made)
    assert not outcome_unknown(error)


def test_a_write_whose_reply_is_lost_is_sent_once(proxy: Proxy, vcenter: SimulatedVCenter) -> None:
    with opened(vcenter, proxy.port) as session:
        root = session.content["rootFolder"]
        proxy.drop_reply("CreateFolder")
        error = error_of(session.call, root, "CreateFolder", name="once")
        assert error.code is Code.UNAVAILABLE
        assert outcome_unknown(error)
        assert vcenter.control.calls()["CreateFolder"] == 1


def test_a_question_whose_reply_is_lost_is_asked_again(proxy: Proxy, vcenter: SimulatedVCenter) -> None:
    with opened(vcenter, proxy.port) as session:
        index = session.content["searchIndex"]
        proxy.drop_reply("FindByInventoryPath")
        assert session.call(index, "FindByInventoryPath", repeatable=True, inventoryPath="/DC0")
        proxy.drop_reply("RetrievePropertiesEx")
        assert session.read([session.content["rootFolder"]], {"Folder": ["name"]})
        assert proxy.dropped == 2


def test_an_idle_connection_that_the_peer_closed_costs_no_call(
    proxy: Proxy, vcenter: SimulatedVCenter
) -> None:
    with opened(vcenter, proxy.port) as session:
        root = session.content["rootFolder"]
        for number in range(20):
            proxy.cut()
            assert session.call(root, "CreateFolder", name=f"folder {number}")


def test_an_idle_connection_is_not_kept_for_ever(proxy: Proxy, vcenter: SimulatedVCenter) -> None:
    clock = Clock()
    session = Session(endpoint(vcenter, proxy.port), vcenter.username, vcenter.password, clock=clock)
    session.call(SERVICE, "CurrentTime")
    (first,) = session._transport._idle
    clock.now = transport.IDLE_CAP + 1
    session.call(SERVICE, "CurrentTime")
    (second,) = session._transport._idle
    assert second[0] is not first[0]
    assert first[0].sock is None
    session.close()


def test_a_connection_that_is_refused_says_so_and_nothing_was_done(vcenter: SimulatedVCenter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with opened(vcenter, port) as session:
        error = error_of(session.call, SERVICE, "CurrentTime")
        assert error.code is Code.UNAVAILABLE
        assert "refused" in error.message
        assert not outcome_unknown(error)


def test_a_method_newer_than_the_server_is_unimplemented(session: Session) -> None:
    session._known()
    assert session._service is not None
    object.__setattr__(session._service, "version", "vim.version.version10")
    manager = session.content["vStorageObjectManager"]
    error = error_of(session.call, manager, "HostQueryVirtualDiskUuid", name="[ds] x.vmdk")
    assert error.code is Code.UNIMPLEMENTED


def test_a_session_keeps_one_object_of_a_kind(session: Session) -> None:
    class Cache(dict[str, str]):
        pass

    assert session.kept(Cache) is session.kept(Cache)


@pytest.mark.parametrize("url", ["http://vc.example/sdk", "vc.example", "https:///sdk"])
def test_an_address_without_tls_or_host_is_refused(url: str) -> None:
    assert error_of(Session, Endpoint(url), "user", "secret").code is Code.INVALID_ARGUMENT


def test_no_secret_shows_in_what_is_printed_of_a_session(session: Session, vcenter: SimulatedVCenter) -> None:
    session.call(SERVICE, "CurrentTime")
    assert session._login is not None
    assert session._login.cookie not in repr(session._login)
    assert vcenter.password not in repr(vars(session)["_transport"])
