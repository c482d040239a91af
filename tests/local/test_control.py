"""Faults, statuses and counts over the control endpoint."""

from __future__ import annotations

from http.client import HTTPSConnection
from typing import TYPE_CHECKING, Any

import pytest
from pyVmomi import vim, vmodl

from support.soap import Soap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vsphere_functions.local.vcenter import SimulatedVCenter

FAULTS = {
    "NoPermission": vim.fault.NoPermission,
    "NotAuthenticated": vim.fault.NotAuthenticated,
    "NoDiskSpace": vim.fault.NoDiskSpace,
    "InsufficientResourcesFault": vim.fault.InsufficientResourcesFault,
    "DuplicateName": vim.fault.DuplicateName,
    "TaskInProgress": vim.fault.TaskInProgress,
    "InvalidPowerState": vim.fault.InvalidPowerState,
    "ResourceInUse": vim.fault.ResourceInUse,
    "FileLocked": vim.fault.FileLocked,
    "ManagedObjectNotFound": vmodl.fault.ManagedObjectNotFound,
    "SystemError": vmodl.fault.SystemError,
}


@pytest.fixture(scope="module")
def soap(shared_vcenter: SimulatedVCenter) -> Iterator[Soap]:
    with Soap(shared_vcenter) as client:
        yield client


@pytest.fixture(scope="module")
def machine(soap: Soap) -> Any:
    return soap.clone("machine")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_fault_arrives_whole_once_and_with_its_message(
    shared_vcenter: SimulatedVCenter, soap: Soap, machine: Any, fault: str
) -> None:
    shared_vcenter.control.add_fault("PowerOnVM_Task", fault, message="<because> & so", count=1)
    with pytest.raises(FAULTS[fault]) as caught:
        machine.PowerOnVM_Task()
    error: Any = caught.value
    assert error.msg == "<because> & so"
    assert soap.read(machine, "runtime.powerState") == {"runtime.powerState": "poweredOff"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_task_fault_arrives_in_the_task_and_its_work_is_not_done(
    shared_vcenter: SimulatedVCenter, soap: Soap, machine: Any, fault: str
) -> None:
    shared_vcenter.control.add_fault("PowerOnVM_Task", fault, scope="task", count=1)
    task = machine.PowerOnVM_Task()
    with pytest.raises(FAULTS[fault]):
        soap.wait(task)
    assert soap.read(task, "info.state") == {"info.state": "error"}
    assert soap.read(machine, "runtime.powerState") == {"runtime.powerState": "poweredOff"}


def test_a_failed_clone_makes_no_machine_and_says_what_the_rule_says(
    shared_vcenter: SimulatedVCenter, soap: Soap
) -> None:
    fields = {"datastore": "LocalDS_0", "file": "x.vmdk"}
    shared_vcenter.control.add_fault("CloneVM_Task", "NoDiskSpace", scope="task", fields=fields, count=1)
    with pytest.raises(vim.fault.NoDiskSpace) as caught:
        soap.clone("failed")
    assert (caught.value.datastore, caught.value.file) == ("LocalDS_0", "x.vmdk")
    assert soap.find("/DC0/vm/demo/machines/failed") is None


def test_a_rule_counts_skips_and_looks_at_the_object(
    shared_vcenter: SimulatedVCenter, soap: Soap, machine: Any
) -> None:
    other = soap.clone("other")
    shared_vcenter.control.add_fault("Rename_Task", "NoPermission", object="machine", skip=1, count=1)
    outcomes = []
    for target, name in [
        (other, "other"),
        (machine, "machine"),
        (machine, "machine"),
        (machine, "machine-2"),
    ]:
        try:
            target.Rename_Task(name)
            outcomes.append("passed")
        except vim.fault.NoPermission:
            outcomes.append("failed")
    assert outcomes == ["passed", "passed", "failed", "passed"]


def test_a_fault_of_a_task_leaves_the_tasks_that_another_starts_alone(
    shared_vcenter: SimulatedVCenter, soap: Soap
) -> None:
    shared_vcenter.control.add_fault("CreateVM_Task", "NoPermission", scope="task")
    try:
        assert soap.clone("unharmed") is not None  # the simulator creates a machine for it
    finally:
        shared_vcenter.control.clear_faults()


def test_login_can_fail(shared_vcenter: SimulatedVCenter) -> None:
    shared_vcenter.control.add_fault("Login", "InvalidLogin", count=1)
    with pytest.raises(vim.fault.InvalidLogin), Soap(shared_vcenter):
        pass


def test_a_status_is_answered_as_often_as_asked(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    def current_time() -> int:
        this = '<_this type="ServiceInstance">ServiceInstance</_this>'
        body = f"<Envelope><Body><CurrentTime>{this}</CurrentTime></Body></Envelope>"
        connection = HTTPSConnection(
            shared_vcenter.host, shared_vcenter.port, timeout=5, context=shared_vcenter.ssl_context
        )
        try:
            connection.request("POST", "/sdk", body)
            return connection.getresponse().status
        finally:
            connection.close()

    shared_vcenter.control.status(503, 2)
    assert [current_time(), current_time()] == [503, 503]
    assert soap.find("/DC0") is not None


def test_calls_are_counted_by_method(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    shared_vcenter.control.reset_calls()
    soap.find("/DC0")
    soap.find("/DC0")
    soap.read(soap.find("/DC0"), "name")
    calls = shared_vcenter.control.calls()
    assert calls == {"FindByInventoryPath": 3, "RetrievePropertiesEx": 1}
    assert calls.total() == 4


def test_sessions_are_counted(shared_vcenter: SimulatedVCenter, soap: Soap) -> None:
    before = shared_vcenter.control.sessions()
    with Soap(shared_vcenter):
        assert shared_vcenter.control.sessions() == before + 1
    assert shared_vcenter.control.sessions() == before
    assert soap.find("/DC0") is not None


def test_a_message_for_a_task_is_refused(shared_vcenter: SimulatedVCenter) -> None:
    with pytest.raises(ValueError, match="messages of tasks"):
        shared_vcenter.control.add_fault("CloneVM_Task", "NoPermission", scope="task", message="because")


@pytest.mark.parametrize(
    ("method", "fault", "fields"),
    [
        ("CloneVm_Task", "NoPermission", {}),
        ("CloneVM_Task", "NoPermision", {}),
        ("CloneVM_Task", "VirtualMachine", {}),
        ("CloneVM_Task", "NoDiskSpace", {"datastore": 1}),
    ],
)
def test_a_rule_that_could_never_fire_is_refused(
    shared_vcenter: SimulatedVCenter, method: str, fault: str, fields: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="POST /faults"):
        shared_vcenter.control.add_fault(method, fault, fields=fields)
