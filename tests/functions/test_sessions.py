"""Sessions and threads: many creates over two vCenters in one process leave one session at each."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from pathlib import Path

from support.gateway import endpoint, error_of
from support.machines import create, listing, vms
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.settings import Secret, Settings, VCenter
from vsphere_functions.vsphere.sessions import Credentials, Sessions


def test_a_hundred_creates_by_32_threads_over_two_vcenters_leave_one_session_at_each(
    vcsim_binary: object,
) -> None:
    assert vcsim_binary
    with ExitStack() as opened:
        vcenters = {label: opened.enter_context(SimulatedVCenter()) for label in ("one", "two")}
        before = {label: len(vms(vcenter)) for label, vcenter in vcenters.items()}
        sessions = Sessions(
            {
                label: lambda vcenter=vcenter: Credentials(  # type: ignore[misc]  # bound now, not later
                    endpoint(vcenter), vcenter.username, vcenter.password
                )
                for label, vcenter in vcenters.items()
            }
        )
        opened.callback(sessions.close)
        context = Context("one", sessions)
        wanted = list(product(vcenters, (f"worker-{number:02}" for number in range(50))))
        with ThreadPoolExecutor(32) as pool:
            made = list(pool.map(lambda each: create(replace(context, label=each[0]), each[1]), wanted))
        assert len({one.provider_id for one in made}) == 100
        for label, vcenter in vcenters.items():
            assert vcenter.control.sessions() == 1
            assert len(vms(vcenter)) == before[label] + 50
            assert len(listing(replace(context, label=label)).machine_list) == 50


def test_a_password_that_is_mended_is_used_without_a_restart_and_without_waiting(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """The brake after a refused login is for that password, not for the vCenter."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "username").write_text(vcenter.username)
    (secret / "password").write_text("outdated")
    settings = Settings(
        vcenters={"default": VCenter(url=vcenter.url, secret="s", ca_file=vcenter.ca_file)},
        secrets={"s": Secret(directory=secret)},
    )
    sessions = sessions_of(settings)
    context = Context("default", sessions)
    for _ in range(3):
        assert error_of(create, context).code is Code.UNAUTHENTICATED
    assert vcenter.control.calls()["Login"] == 1
    (secret / "password").write_text(vcenter.password)
    assert create(context).node_name == "worker-1"
    sessions.close()
