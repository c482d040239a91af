"""initialize_machine on the simulated vCenter."""

import pytest

from support.gateway import error_of
from support.machines import at, create, creation, foreign, info, initialize, status, vms
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

OURS = "/DC0/vm/demo/machines/worker-1"


@pytest.mark.parametrize("phase", ["record_birth", "show_tags", "power_on"])
def test_a_half_built_machine_is_finished_without_a_clone(vcenter: SimulatedVCenter, phase: str) -> None:
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        while next(began).phase != phase:
            pass
        began.close()
        failed = error_of(status, ctx)
        assert failed.code is Code.UNINITIALIZED
        made = initialize(ctx)
        assert (str(made.provider_id), made.node_name) == (failed.provider_id, failed.node_name)
        assert status(ctx).phase == "Running"
    assert vcenter.control.calls()["CloneVM_Task"] == 1


def test_a_finished_machine_is_as_it_was(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.control.reset_calls()
        assert initialize(ctx).provider_id == made.provider_id
        assert not {"ReconfigVM_Task", "PowerOnVM_Task"} & vcenter.control.calls().keys()


def test_what_is_not_there_is_not_found_and_nothing_is_made(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    with at(vcenter) as ctx:
        assert error_of(initialize, ctx).code is Code.NOT_FOUND
        foreign(vcenter)
        assert error_of(initialize, ctx).code is Code.NOT_FOUND
    assert vms(vcenter) == sorted([*before, OURS])
    assert info(vcenter)["runtime"]["powerState"] == "poweredOff"


def test_a_clone_that_runs_is_waited_for(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=1000)
    with at(vcenter) as ctx:
        state = next(create_machine(creation(), ctx)).state
        assert initialize(ctx, state=state).node_name == "worker-1"
    assert vcenter.control.calls()["CloneVM_Task"] == 1


def test_a_machine_of_another_spec_is_left_alone(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        assert error_of(initialize, ctx, memory=8192).code is Code.ALREADY_EXISTS
