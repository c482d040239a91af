"""Follow a task to its end, one step at a time, so that deadline and cancel are looked at meanwhile."""

from contextlib import suppress
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.faults import fault_name, fault_of
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.tasks import TaskInfo
from vsphere_functions.vsphere.vcenter import VCenter

PAUSE = 1.0
"""Seconds between two looks at deadline and cancel; the watcher itself looks more often."""


def follow(vcenter: VCenter, step: str, task: Ref, state: State, message: str) -> Steps[Any]:
    """Wait for the task, yielding its progress; return its result or raise its error.

    Aborted when the task is gone before it was seen to end: its outcome is looked up by identity next time.
    """
    state = state.at(step, task=task.id)
    yield Step(step, str(state), message, 0)
    info = yield from awaited(vcenter, step, task, state, message)
    if info.vanished:
        raise CallError(Code.ABORTED, f"the task of {step} is gone; its outcome is looked up at the next try")
    if info.error is not None:
        raise info.error
    return info.result


def awaited(vcenter: VCenter, step: str, task: Ref, state: State, message: str) -> Steps[TaskInfo]:
    """Wait until a task has ended, however it ends, yielding its progress."""
    watched = vcenter.session.watch(task, step)
    while (info := watched.poll(PAUSE)) is None:
        yield Step(step, str(state), message, watched.progress)
    return info


def change(
    vcenter: VCenter, step: str, ref: Ref, method: str, state: State, message: str, **arguments: Any
) -> Steps[Any]:
    """Start a task under the fence and follow it; one that holds the object meanwhile is waited for.

    Aborted when others go on holding it. When the request is canceled, the task is stopped, or its end waited for:
    nobody could reckon with what it does after the lease.
    """
    for _ in range(2):
        try:
            return (yield from change_as_seen(vcenter, step, ref, method, state, message, **arguments))
        except CallError as error:
            if fault_name(error) != "TaskInProgress":
                raise
    return (yield from change_as_seen(vcenter, step, ref, method, state, message, **arguments))


def change_as_seen(
    vcenter: VCenter, step: str, ref: Ref, method: str, state: State, message: str, **arguments: Any
) -> Steps[Any]:
    """Change an object as `change` does, but not once another task has held it meanwhile: Aborted after that one."""
    try:
        task = vcenter.change(step, ref, method, **arguments)
        return (yield from _to_its_end(vcenter, step, task, state, message))
    except CallError as error:
        fault = fault_of(error)
        busy = fault.fields.get("task") if fault and fault.name == "TaskInProgress" else None
        if isinstance(busy, Ref):
            yield from join(vcenter, step, state.at(step, task=busy.id))
        raise


def _to_its_end(vcenter: VCenter, step: str, task: Ref, state: State, message: str) -> Steps[Any]:
    try:
        return (yield from follow(vcenter, step, task, state, message))
    except CallError as error:
        if error.code is Code.CANCELED:
            stop(vcenter, task)
            yield from join(vcenter, step, state.at(step, task=task.id))
        raise


def join(vcenter: VCenter, step: str, state: State) -> Steps[None]:
    """Wait until a task that an earlier call recorded has ended, however it ends; a task that is gone has."""
    task, message = Ref("Task", state.task or ""), "waiting for the task of an earlier call"
    yield from awaited(vcenter, step, task, state, message)


def stop(vcenter: VCenter, task: Ref) -> None:
    """Cancel a task that this call has started, where vCenter can; whoever needs its end waits for it all the same."""
    with suppress(CallError):
        row = vcenter.read([task], {"Task": ("info.cancelable",)}).get(task, {})
        if row.get("info.cancelable"):
            vcenter.change("cancel", task, "CancelTask")
