"""The task watcher: few calls for many tasks, and no task lost with a session or a connection."""

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.gateway import end_other_sessions, machine, opened
from support.proxy import Proxy
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere import tasks
from vsphere_functions.vsphere.faults import fault_of
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Session
from vsphere_functions.vsphere.tasks import TaskInfo, Watched

WAIT = 20.0


@pytest.fixture(scope="module")
def fleet(vcsim_binary: Path) -> Iterator[SimulatedVCenter]:
    assert vcsim_binary.is_file()
    with SimulatedVCenter(vms=60) as server:
        yield server


@pytest.fixture
def session(fleet: SimulatedVCenter) -> Iterator[Session]:
    with opened(fleet) as made:
        yield made
    fleet.control.clear_faults()
    fleet.control.delay(PowerOn=0, PowerOff=0)


@pytest.fixture
def off(session: Session) -> list[Ref]:
    """The fleet, powered off."""
    rows = session.scan({"VirtualMachine": ["name", "runtime.powerState"]})
    refs = [ref for ref, row in rows.items() if row["name"].startswith("fleet-")]
    running = [ref for ref in refs if rows[ref]["runtime.powerState"] == "poweredOn"]
    for watched in [session.watch(session.call(ref, "PowerOffVM_Task")) for ref in running]:
        ended(watched)
    return refs


def ended(watched: Watched) -> TaskInfo:
    info = watched.poll(WAIT)
    assert info is not None
    return info


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.005)


def test_a_task_that_ends_well_gives_its_result(session: Session) -> None:
    template = machine(session, "ubuntu-24.04")
    task = session.call(template, "CreateSnapshot_Task", name="s", memory=False, quiesce=False)
    info = ended(session.watch(task))
    assert (info.state, info.error, info.vanished, info.fault) == ("success", None, False, None)
    assert isinstance(info.result, Ref)
    assert info.result.type == "VirtualMachineSnapshot"
    # a task that ended long before is seen at once: the state is read first
    assert ended(session.watch(task)) == info


def test_a_running_task_is_none_and_tells_its_progress(
    session: Session, fleet: SimulatedVCenter, off: list[Ref]
) -> None:
    fleet.control.delay(PowerOn=600)
    watched = session.watch(session.call(off[0], "PowerOnVM_Task"), "power_on")
    assert watched.poll(0.05) is None
    assert watched.progress is None or 0 <= watched.progress <= 100
    assert ended(watched).state == "success"


def test_a_task_that_fails_gives_the_code_of_its_step_and_the_fault(
    session: Session, fleet: SimulatedVCenter, off: list[Ref]
) -> None:
    fields = {"name": "web", "object": {"type": "VirtualMachine", "value": "vm-7"}}
    fleet.control.add_fault("PowerOnVM_Task", "DuplicateName", scope="task", fields=fields, count=1)
    info = ended(session.watch(session.call(off[0], "PowerOnVM_Task"), "clone"))
    assert (info.state, info.fault) == ("error", "DuplicateName")
    assert info.error is not None
    assert info.error.code is Code.ALREADY_EXISTS
    fault = fault_of(info.error)
    assert fault is not None
    assert fault.fields["object"] == Ref("VirtualMachine", "vm-7")
    for step, code in (("power_on", Code.UNAVAILABLE), ("reconfigure", Code.FAILED_PRECONDITION)):
        fleet.control.add_fault("PowerOnVM_Task", "InvalidState", scope="task", count=1)
        info = ended(session.watch(session.call(off[0], "PowerOnVM_Task"), step))
        assert info.error is not None
        assert info.error.code is code


def test_a_task_whose_read_is_refused_holds_up_no_other() -> None:
    """A caller can name any object as the task of an earlier call."""

    def read(refs: Iterable[Ref], _paths: object) -> dict[Ref, dict[str, Any]]:
        if Ref("Task", "odd") in refs:
            raise CallError(Code.INTERNAL, "vCenter does not understand the call")
        return {ref: {"info.state": "success"} for ref in refs}

    watcher = tasks.TaskWatcher(read)
    watched = [watcher.watch(Ref("Task", name), None) for name in ("odd", "good")]
    odd, good = (ended(one) for one in watched)
    watcher.close()
    assert (odd.vanished, good.state, good.vanished) == (True, "success", False)


def test_power_on_twice_at_once_ends_with_the_state_that_is(session: Session, off: list[Ref]) -> None:
    """M05: the second's fault says that the machine is on already."""
    started = [session.watch(session.call(off[0], "PowerOnVM_Task"), "power_on") for _ in range(2)]
    infos = [ended(watched) for watched in started]
    assert [info.fault for info in infos if info.error] == ["InvalidPowerState"]
    errors = [fault_of(info.error) for info in infos if info.error]
    assert [fault.fields["existingState"] for fault in errors if fault] == ["poweredOn"]


def test_a_task_that_is_gone_has_vanished(session: Session) -> None:
    info = ended(session.watch(Ref("Task", "task-99999")))
    assert info.vanished
    assert info.error is not None
    assert info.error.code is Code.UNKNOWN


def test_a_lost_session_loses_no_task(session: Session, fleet: SimulatedVCenter, off: list[Ref]) -> None:
    """M60."""
    fleet.control.delay(PowerOn=500)
    watched = [session.watch(session.call(ref, "PowerOnVM_Task")) for ref in off[:3]]
    with opened(fleet) as admin:
        assert admin.content
        fleet.control.reset_calls()
        assert end_other_sessions(admin) == 1
        assert [ended(one).state for one in watched] == ["success"] * 3
        assert fleet.control.calls()["Login"] == 1
        assert fleet.control.sessions() == 2


def test_a_server_that_is_away_loses_no_task(
    fleet: SimulatedVCenter, session: Session, off: list[Ref]
) -> None:
    fleet.control.delay(PowerOn=300)
    with (
        Proxy(fleet.host, fleet.port, cert=fleet.ca_file, key=fleet.key_file) as proxy,
        opened(fleet, proxy.port) as through,
    ):
        watched = through.watch(through.call(off[0], "PowerOnVM_Task"))
        proxy.refuse()
        assert watched.poll(0.6) is None  # it has ended there by now, and nobody can know
        proxy.resume()
        assert ended(watched).state == "success"
    assert session.content


def test_many_tasks_share_few_reads(session: Session, fleet: SimulatedVCenter, off: list[Ref]) -> None:
    fleet.control.delay(PowerOn=800)
    fleet.control.reset_calls()
    began = time.monotonic()
    with ThreadPoolExecutor(16) as threads:
        started = threads.map(lambda ref: session.watch(session.call(ref, "PowerOnVM_Task")), off)
        infos = [ended(watched) for watched in started]
    ran = time.monotonic() - began
    assert [info.state for info in infos] == ["success"] * len(off)
    calls = fleet.control.calls()
    # each new task is looked at once at first, and then all that are due together
    assert calls["RetrievePropertiesEx"] <= len(off) + 30 * (ran + 1)
    assert calls.total() == calls["PowerOnVM_Task"] + calls["RetrievePropertiesEx"]


def test_a_task_that_may_not_be_seen_stops_no_other(
    session: Session, fleet: SimulatedVCenter, off: list[Ref]
) -> None:
    """M65: the batch is refused as a whole; then each is read alone."""
    hidden, seen = (session.call(ref, "PowerOnVM_Task") for ref in off[:2])
    watcher = tasks.TaskWatcher(session.read)
    batch = [Watched(task, None, watcher) for task in (hidden, seen)]
    fleet.control.add_fault("RetrievePropertiesEx", "NoPermission", count=2)
    watcher._look(batch)
    ends = [watched._info for watched in batch]
    refused = [info for info in ends if info and info.vanished]
    assert len(refused) == 1
    assert refused[0].error is not None
    assert refused[0].error.code is Code.PERMISSION_DENIED
    watcher.close()


def test_a_task_that_nobody_waits_for_is_forgotten(
    session: Session, fleet: SimulatedVCenter, off: list[Ref]
) -> None:
    fleet.control.delay(PowerOn=2000)
    kept, left = (session.watch(session.call(ref, "PowerOnVM_Task")) for ref in off[:2])
    assert kept.poll(0.05) is None
    del left
    gc.collect()
    until(lambda: len(session._watcher._pending) == 1)
    fleet.control.delay(PowerOn=0)
    assert ended(kept).state == "success"


def test_the_thread_ends_when_there_is_nothing_to_do_and_comes_again(
    session: Session, off: list[Ref], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "IDLE", 0.01)
    for method in ("PowerOnVM_Task", "PowerOffVM_Task"):
        assert ended(session.watch(session.call(off[0], method))).state == "success"
        until(lambda: session._watcher._thread is None)


def test_a_closed_session_looks_no_more(fleet: SimulatedVCenter, off: list[Ref]) -> None:
    fleet.control.delay(PowerOn=200)
    with opened(fleet) as session:
        watched = session.watch(session.call(off[0], "PowerOnVM_Task"))
        watcher = session._watcher
    until(lambda: watcher._thread is None)
    assert watched.poll(0.01) is None
