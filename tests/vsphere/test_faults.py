"""Every fault has a code, the step matters, and messages tell nothing that they must not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyVmomi import VmomiSupport, vmodl

from vsphere_events.code import Code
from vsphere_functions.vsphere.fault_table import ANY_STEP, TABLE
from vsphere_functions.vsphere.faults import (
    Fault,
    NoAnswer,
    ancestors,
    as_call_error,
    clean,
    fault_name,
    fault_of,
    outcome_unknown,
    unavailable,
)
from vsphere_functions.vsphere.ref import Ref


def every_fault() -> set[str]:
    """The wire names of all fault types that pyVmomi knows."""
    kinds = {VmomiSupport.GetWsdlType(*name) for name in list(VmomiSupport._wsdlDefMap)}
    return {
        kind._wsdlName for kind in kinds if isinstance(kind, type) and issubclass(kind, vmodl.MethodFault)
    }


def test_every_fault_of_the_api_has_a_code() -> None:
    names = every_fault()
    assert len(names) > 690
    for name in names:
        error = as_call_error(Fault(name, "said"))
        assert error.code is not Code.OK
        assert name in error.message
        assert fault_name(error) == name
        assert ancestors(name)[-1] == "MethodFault"


def test_the_table_names_only_faults_that_exist() -> None:
    assert {name for _, name in TABLE} <= every_fault()


@pytest.mark.parametrize(
    ("step", "fault", "code"),
    [
        (None, "InvalidLogin", Code.UNAUTHENTICATED),
        (None, "PasswordExpired", Code.UNAUTHENTICATED),
        (None, "NoPermission", Code.PERMISSION_DENIED),
        (None, "NotAuthenticated", Code.UNAVAILABLE),  # a child of NoPermission
        (None, "NoDiskSpace", Code.RESOURCE_EXHAUSTED),
        (None, "InsufficientMemoryResourcesFault", Code.RESOURCE_EXHAUSTED),
        (None, "InsufficientHostMemoryCapacityFault", Code.RESOURCE_EXHAUSTED),
        (None, "VmLimitLicense", Code.RESOURCE_EXHAUSTED),
        (None, "TaskInProgress", Code.ABORTED),
        (None, "ConcurrentAccess", Code.ABORTED),
        (None, "ResourceInUse", Code.ABORTED),
        (None, "FileLocked", Code.ABORTED),
        (None, "HostCommunication", Code.UNAVAILABLE),
        (None, "HostNotConnected", Code.UNAVAILABLE),
        (None, "NoHost", Code.UNAVAILABLE),
        (None, "InaccessibleDatastore", Code.UNAVAILABLE),
        (None, "InvalidDatastorePath", Code.INVALID_ARGUMENT),
        (None, "DuplicateName", Code.ALREADY_EXISTS),
        (None, "FileAlreadyExists", Code.ALREADY_EXISTS),
        (None, "InvalidName", Code.INVALID_ARGUMENT),
        (None, "InvalidArgument", Code.INVALID_ARGUMENT),
        (None, "InvalidPowerState", Code.FAILED_PRECONDITION),
        (None, "QuestionPending", Code.FAILED_PRECONDITION),
        (None, "NotImplemented", Code.UNIMPLEMENTED),
        (None, "InvalidRequest", Code.INTERNAL),
        (None, "SystemError", Code.UNKNOWN),
        (None, "VimFault", Code.UNKNOWN),
        (None, "FaultOfANewerServer", Code.UNKNOWN),
        ("attach", "InvalidDeviceSpec", Code.INVALID_ARGUMENT),
        ("detach", "InvalidDeviceSpec", Code.FAILED_PRECONDITION),
        ("detach", "InvalidDeviceBacking", Code.FAILED_PRECONDITION),
        ("reconfigure", "InvalidState", Code.FAILED_PRECONDITION),
        ("power_on", "InvalidState", Code.UNAVAILABLE),
        ("power_on", "InvalidPowerState", Code.FAILED_PRECONDITION),
        ("power_on", "ManagedObjectNotFound", Code.ABORTED),
        ("destroy", "ManagedObjectNotFound", Code.NOT_FOUND),
        ("destroy", "FileNotFound", Code.NOT_FOUND),
        ("attach", "FileNotFound", Code.FAILED_PRECONDITION),
        ("detach", "ManagedObjectNotFound", Code.ABORTED),
        ("power_off", "ManagedObjectNotFound", Code.ABORTED),
    ],
)
def test_the_nearest_entry_decides_and_the_step_comes_first(step: str | None, fault: str, code: Code) -> None:
    assert as_call_error(Fault(fault), step).code is code
    assert (ANY_STEP, "MethodFault") in TABLE


def test_a_message_tells_what_is_missing_and_where() -> None:
    fields = {"privilegeId": "VirtualMachine.Config.AddNewDisk", "object": Ref("VirtualMachine", "vm-7")}
    error = as_call_error(Fault("NoPermission", "Permission denied", fields), doing="ReconfigVM_Task")
    for part in (
        "VirtualMachine.Config.AddNewDisk",
        "VirtualMachine:vm-7",
        "Permission denied",
        "ReconfigVM_Task",
    ):
        assert part in error.message


def test_encoded_user_data_is_cut_out_of_a_message() -> None:
    data = "I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogaHVudGVyMgo=" * 4
    error = as_call_error(Fault("InvalidArgument", f"bad value {data} here"))
    assert data[:40] not in error.message
    assert "bad value … here" in error.message


@given(st.text())
def test_a_servers_text_becomes_one_short_line(text: str) -> None:
    line = clean(text)
    assert len(line) <= 300
    assert line == " ".join(line.split())


def test_an_error_knows_its_fault_and_whether_the_outcome_is_known() -> None:
    error = as_call_error(Fault("DuplicateName", fields={"object": Ref("VirtualMachine", "vm-1")}))
    fault = fault_of(error)
    assert fault is not None
    assert fault.fields["object"] == Ref("VirtualMachine", "vm-1")
    assert fault.is_a("VimFault")
    assert not fault.is_a("RuntimeFault")
    assert not outcome_unknown(error)
    lost = unavailable(NoAnswer("no answer", sent=True), "CloneVM_Task")
    assert outcome_unknown(lost)
    assert "CloneVM_Task" in lost.message
    assert not outcome_unknown(unavailable(NoAnswer("refused", sent=False)))
    assert fault_of(lost) is None
    assert fault_name(lost) is None
