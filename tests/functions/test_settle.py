"""Attaches, detaches and resizes that are cut short: who comes next waits for what vCenter still does for them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pyVmomi import vim

from support import machines
from support.gateway import error_of
from support.machines import end
from support.proxy import Proxy
from support.scene import Scene, strip
from support.volumes import (
    GIB,
    attach,
    attaching,
    contents,
    create,
    destroy,
    destroying,
    detach,
    detaching,
    duplicate,
    get,
    resize,
    resizing,
    with_stores,
)
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.steps import Step

LONG = 600
"""Milliseconds that vCenter works on a reconfigure after its request has let go of it."""

Begin = Callable[..., Any]
Cut = Callable[[Scene, Begin], None]


@contextmanager
def slow(on: Scene, task: str = "ReconfigVm") -> Iterator[None]:
    """Let the tasks that begin within the block take long."""
    on.vcenter.control.delay(**{task: LONG})
    try:
        yield
    finally:
        on.vcenter.control.delay(**{task: 0})


def until_asked(on: Scene, steps: Any, method: str = "ReconfigVM_Task") -> None:
    """Go on until vCenter is asked for something."""
    before = on.vcenter.control.calls()[method]
    while on.vcenter.control.calls()[method] == before:
        next(steps)


def quiet(on: Scene) -> None:
    """Wait until vCenter works on nothing any more."""
    recent = on.soap.read(on.soap.content.taskManager, "recentTask")["recentTask"]
    while any(on.soap.read(task, "info.state")["info.state"] in {"queued", "running"} for task in recent):
        pass


def by_a_stop(on: Scene, begin: Begin) -> None:
    """A worker that is told to end closes what it does."""
    with slow(on):
        steps = begin(on.ctx, volume_id=on.volume)
        until_asked(on, steps)
        steps.close()


def by_its_deadline(on: Scene, begin: Begin) -> None:
    with slow(on):
        steps = begin(on.ctx, volume_id=on.volume)
        until_asked(on, steps)
        with pytest.raises(CallError) as caught:
            steps.throw(CallError(Code.DEADLINE_EXCEEDED, "enough"))
    assert caught.value.code is Code.DEADLINE_EXCEEDED


def by_a_lost_reply(on: Scene, begin: Begin) -> None:
    """Then not even its own request knows of the task."""
    server = on.vcenter
    with (
        Proxy(server.host, server.port, cert=server.ca_file, key=server.key_file) as proxy,
        with_stores(server, port=proxy.port) as ctx,
        slow(on),
    ):
        proxy.drop_reply("<ReconfigVM_Task ")
        assert error_of(end, begin(ctx, volume_id=on.volume)).code is Code.UNAVAILABLE
        assert proxy.dropped == 1


CUTS = pytest.mark.parametrize("cut", [by_a_stop, by_its_deadline, by_a_lost_reply])


@CUTS
def test_a_volume_that_is_still_being_attached_goes_to_no_second_machine(
    on: Scene, second: str, cut: Cut
) -> None:
    cut(on, attaching)
    failed = error_of(attach, on.ctx, on.volume, second)
    assert failed.code is Code.FAILED_PRECONDITION
    assert failed.details[0].candidates == ("worker-1",)
    assert (on.disk in on.paths(), on.disk in on.paths(second)) == (True, False)


def test_a_volume_that_is_still_being_attached_is_not_destroyed(on: Scene) -> None:
    by_its_deadline(on, attaching)
    on.vcenter.control.reset_calls()
    assert error_of(destroy, on.ctx, on.volume).code is Code.FAILED_PRECONDITION
    assert on.vcenter.control.calls()["MoveVirtualDisk_Task"] == 0, "nor set aside"
    assert get(on.ctx, on.volume).state == "ready"
    assert on.disk in on.paths()


def test_a_volume_that_is_still_being_attached_is_detached_for_good(on: Scene) -> None:
    by_a_lost_reply(on, attaching)
    assert detach(on.ctx, on.volume).volume.attached_to == ()
    quiet(on)
    assert on.disk not in on.paths()


def test_a_volume_that_is_still_being_attached_is_attached_once(on: Scene) -> None:
    by_a_lost_reply(on, attaching)
    on.vcenter.control.reset_calls()
    assert attach(on.ctx, on.volume).volume.attached_to == ("worker-1",)
    assert not on.reconfigured()
    assert on.paths().count(on.disk) == 1


def test_a_volume_that_is_still_being_attached_grows_on_its_machine(on: Scene) -> None:
    by_a_stop(on, attaching)
    resize(on.ctx, 2 * GIB, on.volume)
    assert {disk.backing.fileName: disk.capacityInKB for disk in on.soap.disks(on.machine())}[
        on.disk
    ] == 2 * GIB
    assert on.vcenter.control.calls()["ExtendVirtualDisk_Task"] == 0


def test_a_volume_that_a_running_machine_is_still_given_is_not_copied(on: Scene) -> None:
    by_a_stop(on, attaching)
    on.vcenter.control.reset_calls()
    assert error_of(duplicate, on.ctx, f"{on.volume}-copy", on.volume).code is Code.FAILED_PRECONDITION
    assert on.vcenter.control.calls()["CopyVirtualDisk_Task"] == 0


def test_a_volume_that_is_still_being_attached_outlives_its_machine(on: Scene) -> None:
    """The machine would take with it what it is given after the look at its disks."""
    name = f"worker-{on.volume}"
    machines.create(on.ctx, name)
    by_a_lost_reply(on, lambda ctx, volume_id: attaching(ctx, volume_id, name))
    gone = machines.delete(on.ctx, name)
    assert [(one.vmdk_path, one.self_link) for one in gone.detached_volumes] == [(on.disk, on.link)]
    assert contents(on.ctx)[on.volume] == [f"{on.volume}-flat.vmdk", f"{on.volume}.vmdk", "volume.json"]


def test_a_volume_that_is_still_being_detached_goes_to_the_next_machine(on: Scene, second: str) -> None:
    attach(on.ctx, on.volume)
    by_a_lost_reply(on, detaching)
    assert attach(on.ctx, on.volume, second).volume.attached_to == (second,)
    strip(on, second)


def test_a_volume_that_is_still_being_detached_is_destroyed(on: Scene) -> None:
    attach(on.ctx, on.volume)
    by_its_deadline(on, detaching)
    destroy(on.ctx, on.volume)
    assert on.volume not in contents(on.ctx)


def test_a_volume_that_still_grows_on_its_machine_is_not_grown_twice(on: Scene) -> None:
    attach(on.ctx, on.volume)
    by_a_stop(on, lambda ctx, volume_id: resizing(ctx, 2 * GIB, volume_id))
    on.vcenter.control.reset_calls()
    assert resize(on.ctx, 2 * GIB, on.volume).capacity_kb == 2 * GIB
    assert not on.reconfigured()


def test_a_create_that_is_cut_short_while_it_attaches_keeps_its_volume(on: Scene, second: str) -> None:
    name, spec = f"worker-{on.volume}", cast("dict[str, Any]", {"volumes": [{"id": on.volume}]})
    making = create_machine(machines.creation(name, **spec), on.ctx)
    while next(making).message != "recorded what the machine was born with":
        pass
    with slow(on):
        until_asked(on, making)
        making.close()
    assert error_of(attach, on.ctx, on.volume, second).code is Code.FAILED_PRECONDITION
    machines.create(on.ctx, name, **spec)
    assert on.paths(name).count(on.disk) == 1
    machines.delete(on.ctx, name)


def test_a_volume_that_is_still_being_set_aside_is_not_attached(on: Scene) -> None:
    """A machine that is off would be given a disk that loses its name."""
    with slow(on, "MoveVirtualDisk"):
        destroys = destroying(on.ctx, on.volume)
        until_asked(on, destroys, "MoveVirtualDisk_Task")
        destroys.close()
    failed = error_of(attach, on.ctx, on.volume)
    assert failed.code is Code.FAILED_PRECONDITION
    assert "its destroy has begun" in failed.message
    assert not on.reconfigured()


def test_a_wait_for_a_machine_ends_with_the_time_for_it(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx:
        machines.create(ctx)
        create(ctx)
        vcenter.control.delay(ReconfigVm=120_000)
        begun = attaching(ctx)
        next(begun)
        begun.close()
        for start in (destroying, detaching):
            waiting = start(ctx)
            assert next(waiting).message == "waiting until 'worker-1' is reconfigured"
            with pytest.raises(CallError) as caught:
                waiting.throw(CallError(Code.DEADLINE_EXCEEDED, "enough"))
            assert caught.value.code is Code.DEADLINE_EXCEEDED
        assert contents(ctx).keys() == {"", "data-1"}
        assert get(ctx).state == "ready"


def test_what_others_do_with_their_machines_is_not_waited_for(on: Scene) -> None:
    holder = on.soap.clone(f"holder-{on.volume}")
    on.vcenter.control.delay(ReconfigVm=120_000)
    task = holder.ReconfigVM_Task(vim.vm.ConfigSpec(annotation="slow"))
    on.vcenter.control.delay(ReconfigVm=0)
    taken: list[Step] = []
    end(attaching(on.ctx, on.volume), taken)
    assert not [step for step in taken if "waiting" in step.message]
    assert on.soap.read(task, "info.state")["info.state"] == "running"


def test_a_delete_does_not_destroy_what_another_task_has_changed_meanwhile(on: Scene) -> None:
    """It has been given a volume, perhaps: the next try looks again."""
    name = f"worker-{on.volume}"
    machines.create(on.ctx, name)
    on.vcenter.control.add_fault("Destroy_Task", "TaskInProgress", scope="task", count=1)
    on.vcenter.control.reset_calls()
    assert error_of(machines.delete, on.ctx, name).code is Code.ABORTED
    assert on.vcenter.control.calls()["Destroy_Task"] == 1
    create(on.ctx, f"{on.volume}-late")
    on.soap.attach(on.machine(name), on.disk.replace(on.volume, f"{on.volume}-late"))
    gone = machines.delete(on.ctx, name)
    assert [one.self_link for one in gone.detached_volumes] == [f"{on.link}-late"]
