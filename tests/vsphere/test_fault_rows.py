"""Each row of the fault table, provoked over the wire: as the fault of a call, and as that of a task."""

from collections.abc import Iterator

import pytest
from pyVmomi.VmomiSupport import GuessWsdlType

from support.gateway import error_of, machine, opened
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.fault_table import ANY_STEP, TABLE
from vsphere_functions.vsphere.faults import fault_name
from vsphere_functions.vsphere.session import Session

NOT_IN_THE_SIMULATOR = {"AuthenticationRequired", "SessionNotFound"}


def of_the_simulator(fault: str) -> bool:
    """Whether the simulator knows a fault: not those of SMS, EAM and storage policies, nor of CNS."""
    kind = GuessWsdlType(fault).__name__
    others = not kind.startswith(("vim.fault.", "vmodl.")) or kind.startswith("vim.fault.Cns")
    return not others and fault not in NOT_IN_THE_SIMULATOR


ROWS = sorted((step, fault, code) for (step, fault), (code, _) in TABLE.items() if of_the_simulator(fault))


def test_few_rows_are_left_to_the_table_alone() -> None:
    assert len(ROWS) > 0.8 * len(TABLE)


@pytest.fixture(scope="module")
def fleet(vcsim_binary: object) -> Iterator[SimulatedVCenter]:
    assert vcsim_binary
    with SimulatedVCenter(vms=1) as one:
        yield one


@pytest.fixture(scope="module")
def session(fleet: SimulatedVCenter) -> Iterator[Session]:
    with opened(fleet) as one:
        yield one


@pytest.mark.parametrize(("step", "fault", "code"), ROWS, ids=str)
def test_a_row_of_the_table_comes_over_the_wire(
    session: Session, fleet: SimulatedVCenter, step: str, fault: str, code: Code
) -> None:
    at, vm = (None if step == ANY_STEP else step), machine(session, "fleet-00001")
    twice = 2 if fault == "NotAuthenticated" else 1  # the first time, the session is renewed
    fleet.control.add_fault("PowerOnVM_Task", fault, count=twice)
    failed = error_of(session.call, vm, "PowerOnVM_Task", step=at)
    assert (fault_name(failed), failed.code) == (fault, code)
    fleet.control.add_fault("PowerOnVM_Task", fault, scope="task", count=1)
    watched = session.watch(session.call(vm, "PowerOnVM_Task"), at)
    while (info := watched.poll(1.0)) is None:
        pass
    assert info.error is not None
    assert (fault_name(info.error), info.error.code) == (fault, code)
