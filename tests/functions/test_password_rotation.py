"""A password that changes while the process lives: who logs in with it, which session ends and when."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateway import end_other_sessions, endpoint, error_of, opened
from support.machines import create, creation, end, eventually, status
from support.proxy import Proxy
from vsphere_events.client import SyncClient
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Stack
from vsphere_functions.local.vcenter import PASSWORD, SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.settings import Settings, VCenter
from vsphere_functions.vsphere.session import SERVICE, Endpoint
from vsphere_functions.vsphere.sessions import IDLE, Credentials, Sessions

NEXT = "another-password-rotated!"
assert len(NEXT) == len(PASSWORD)
SOME = Endpoint("https://vc.invalid/sdk")


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def proxy(vcenter: SimulatedVCenter) -> Iterator[Proxy]:
    with Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as made:
        yield made


def put(file: Path, text: str) -> None:
    """Replace a file as a mounted secret is replaced: at once."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def change_password(proxy: Proxy) -> None:
    """Change it at the vCenter: sessions live on there, logins with the old one are refused."""
    proxy.exchange({PASSWORD: "x" * len(PASSWORD), NEXT: PASSWORD})


def configured(vcenter: SimulatedVCenter, proxy: Proxy, file: Path) -> Sessions:
    file.write_text(PASSWORD)
    url = endpoint(vcenter, proxy.port).url
    one = VCenter(url=url, user=vcenter.username, password_file=file, ca_file=vcenter.ca_file)
    return sessions_of(Settings(vcenters={"default": one}))


def test_the_old_session_ends_when_its_work_is_done_and_the_work_goes_on(
    vcenter: SimulatedVCenter, proxy: Proxy, tmp_path: Path
) -> None:
    sessions = configured(vcenter, proxy, tmp_path / "password")
    with sessions.work() as lent:
        steps = create_machine(creation(), Context("default", lent))
        assert next(steps).phase == "clone"
        change_password(proxy)
        put(tmp_path / "password", NEXT)
        for _ in range(3):
            with sessions.work() as other:
                assert error_of(status, Context("default", other)).code is Code.UNINITIALIZED
        assert vcenter.control.calls()["Login"] == 2
        assert vcenter.control.sessions() == 2
        assert end(steps).node_name == "worker-1"
    assert vcenter.control.sessions() == 1
    assert vcenter.control.calls()["Login"] == 2
    with sessions.work() as other:
        assert status(Context("default", other)).node_name == "worker-1"
    assert vcenter.control.calls()["Login"] == 2
    sessions.close()
    assert vcenter.control.sessions() == 0


def test_work_whose_session_ends_with_the_old_password_goes_on_under_the_new_one(
    vcenter: SimulatedVCenter, proxy: Proxy, tmp_path: Path
) -> None:
    sessions = configured(vcenter, proxy, tmp_path / "password")
    with sessions.work() as lent, opened(vcenter) as admin:
        steps = create_machine(creation(), Context("default", lent))
        assert next(steps).phase == "clone"
        change_password(proxy)
        put(tmp_path / "password", NEXT)
        assert end_other_sessions(admin) == 1
        assert end(steps).node_name == "worker-1"
        (tmp_path / "password").unlink()
        assert end_other_sessions(admin) == 1
        assert error_of(lent.get("default").call, SERVICE, "CurrentTime").code is Code.UNAUTHENTICATED
    sessions.close()


def test_a_file_with_a_wrong_password_ends_no_session(
    vcenter: SimulatedVCenter, proxy: Proxy, tmp_path: Path
) -> None:
    sessions = configured(vcenter, proxy, tmp_path / "password")
    with sessions.work() as lent:
        create(Context("default", lent))
    put(tmp_path / "password", "a mistake")
    with sessions.work() as lent:
        assert error_of(status, Context("default", lent)).code is Code.UNAUTHENTICATED
    put(tmp_path / "password", "")
    with sessions.work() as lent:
        assert error_of(status, Context("default", lent)).code is Code.UNAUTHENTICATED
    put(tmp_path / "password", PASSWORD)
    with sessions.work() as lent:
        assert status(Context("default", lent)).node_name == "worker-1"
    assert vcenter.control.calls()["Login"] == 2
    assert vcenter.control.sessions() == 1
    sessions.close()


def test_a_close_ends_also_what_is_replaced_and_still_at_work(
    vcenter: SimulatedVCenter, proxy: Proxy, tmp_path: Path
) -> None:
    sessions = configured(vcenter, proxy, tmp_path / "password")
    with sessions.work() as lent:
        assert lent.get("default").call(SERVICE, "CurrentTime")
        change_password(proxy)
        put(tmp_path / "password", NEXT)
        with sessions.work() as other:
            assert other.get("default").call(SERVICE, "CurrentTime")
        assert vcenter.control.sessions() == 2
        sessions.close()
        assert vcenter.control.sessions() == 0


def test_another_user_in_the_secret_ends_the_session_of_the_one_before(
    vcenter: SimulatedVCenter, proxy: Proxy
) -> None:
    """As a store of secrets does that makes an account for each rotation."""
    first = Credentials(endpoint(vcenter, proxy.port), vcenter.username, PASSWORD)
    now = [first]
    sessions = Sessions({"default": lambda: now[0], "team": lambda: first})
    for label in ("default", "team"):
        with sessions.work() as lent:
            assert lent.get(label).call(SERVICE, "CurrentTime")
    second = "administrator@vsphere.next_"
    proxy.exchange({second: vcenter.username})
    now[0] = Credentials(first.endpoint, second, PASSWORD)
    with sessions.work() as lent:
        assert lent.get("default").call(SERVICE, "CurrentTime")
    assert vcenter.control.sessions() == 2, "the other label still uses the first"
    first = now[0]
    with sessions.work() as lent:
        assert lent.get("team").call(SERVICE, "CurrentTime")
    assert vcenter.control.sessions() == 1
    sessions.close()


def test_a_request_that_guesses_passwords_ends_no_session_of_others(vcenter: SimulatedVCenter) -> None:
    right = Credentials(endpoint(vcenter), vcenter.username, vcenter.password)
    sessions = Sessions({"default": lambda: right}, most=4)
    with sessions.work() as lent:
        assert lent.get("default").call(SERVICE, "CurrentTime")
        for guess in range(20):
            with sessions.work() as other:
                wrong = other.get("default", Credentials(right.endpoint, right.user, f"guess {guess}"))
                assert error_of(wrong.call, SERVICE, "CurrentTime").code is Code.UNAUTHENTICATED
        assert lent.get("default").call(SERVICE, "CurrentTime")
    assert len(sessions._table) == 4
    assert vcenter.control.sessions() == 1
    sessions.close()


def test_there_are_never_more_sessions_than_the_bound() -> None:
    sessions = Sessions({}, most=2)
    logins = [Credentials(SOME, f"user {number}", "p") for number in range(3)]
    with sessions.work() as one, sessions.work() as two, sessions.work() as three:
        first, second = one.get("default", logins[0]), two.get("default", logins[1])
        error = error_of(three.get, "default", logins[2])
        assert error.code is Code.RESOURCE_EXHAUSTED
        assert "2 logins" in error.message
        assert three.get("default", logins[0]) is first
    sessions.get("default", logins[2])
    assert sessions.get("default", logins[0]) is first, "it was used last"
    assert sessions.get("default", logins[1]) is not second, "it had to go"


def test_a_session_that_nobody_uses_is_ended(vcenter: SimulatedVCenter) -> None:
    clock = Clock()
    sessions = Sessions(
        {"default": lambda: Credentials(endpoint(vcenter), vcenter.username, vcenter.password)}, clock=clock
    )
    with sessions.work() as lent:
        lent.get("default").call(SERVICE, "CurrentTime")
        clock.now = IDLE + 1
        sessions.get("default", Credentials(SOME, "user", "p"))
        assert vcenter.control.sessions() == 1, "at work"
    clock.now += IDLE + 1
    sessions.get("default", Credentials(SOME, "user", "p"))
    assert vcenter.control.sessions() == 0


def test_a_worker_goes_over_to_a_new_password_under_a_running_create(vcsim_binary: Path) -> None:
    """Nothing is restarted, nothing fails, one session is left."""
    assert vcsim_binary.is_file()
    with Stack(sections={"nats": {"ack_wait_seconds": 3}}) as stack:
        simulated = stack.vcenter
        with Proxy(simulated.host, simulated.port, cert=simulated.ca_file, key=simulated.key_file) as proxy:
            own = stack.config.read_text()
            stack.config.write_text(own.replace(f":{simulated.port}/", f":{proxy.port}/"))
            worker = stack.start_worker()
            simulated.control.delay(PowerOn=1500)
            with SyncClient(stack.nats.url) as client:
                with client.send("create_machine", example("create_machine")) as pending:
                    assert next(iter(pending)).step == "clone"
                    change_password(proxy)
                    put(stack.home / "secrets" / "password", NEXT)
                    eventually(lambda: simulated.control.calls()["Login"] == 2, tries=6000)
                    made = pending.result()
                assert list(client.list_all_machines(example("list_machines")).machine_list) == [
                    str(made.provider_id)
                ]
            eventually(lambda: simulated.control.sessions() == 1, tries=6000)
            assert simulated.control.calls()["Login"] == 2
            worker.stop()
            assert simulated.control.sessions() == 0
