"""get_machine_status on the simulated vCenter."""

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.machines import OTHERS, at, create, creation, delete, extra, info, status
from support.soap import Soap
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

OURS = "/DC0/vm/demo/machines/worker-1"


def test_a_machine_is_found_by_name_and_by_provider_id(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.control.reset_calls()
        by_name = status(ctx)
        assert vcenter.control.calls().total() <= 2
        by_id = status(ctx, None, providerID=str(made.provider_id))
        assert by_name == by_id
    assert (by_id.provider_id, by_id.node_name) == (made.provider_id, "worker-1")
    assert (by_id.power_state, by_id.phase) == ("poweredOn", "Running")


@pytest.mark.parametrize(("power", "state"), [("off", "poweredOff"), ("suspend", "suspended")])
def test_a_machine_that_does_not_run_is_stopped(vcenter: SimulatedVCenter, power: str, state: str) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("vm.power", f"-{power}", OURS)
        assert (status(ctx).power_state, status(ctx).phase) == (state, "Stopped")


def test_what_is_not_there_is_not_found(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        assert error_of(status, ctx, "worker-2").code is Code.NOT_FOUND
        assert error_of(status, ctx, tags=OTHERS).code is Code.NOT_FOUND
        delete(ctx)
        assert error_of(status, ctx).code is Code.NOT_FOUND
        assert error_of(status, ctx, None, providerID=str(made.provider_id)).code is Code.NOT_FOUND


def test_m17_a_machine_made_a_template_is_none(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("vm.power", "-off", OURS)
        vcenter.govc("vm.markastemplate", OURS)
        assert error_of(status, ctx).code is Code.NOT_FOUND


@pytest.mark.parametrize("phase", ["record_birth", "show_tags", "power_on"])
def test_a_half_built_machine_is_uninitialized(vcenter: SimulatedVCenter, phase: str) -> None:
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        while next(began).phase != phase:
            pass
        began.close()
        failed = error_of(status, ctx)
        assert (failed.code, failed.node_name) == (Code.UNINITIALIZED, "worker-1")
        made = create(ctx)
        assert failed.provider_id == str(made.provider_id)
        assert status(ctx).phase == "Running"


def test_more_than_one_vm_of_the_identity_is_out_of_range(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        made = create(ctx)
        create(ctx, "worker-2")
        twin(soap, vcenter)
        for asked in (status, delete, create):
            assert error_of(asked, ctx).code is Code.OUT_OF_RANGE
        assert error_of(status, ctx, None, providerID=str(made.provider_id)).code is Code.OUT_OF_RANGE


def twin(soap: Soap, vcenter: SimulatedVCenter) -> None:
    """Give a second VM the mark and the uuids of the first, as a restore into another folder can."""
    config = info(vcenter)["config"]
    mark = vim.option.OptionValue(key="vspherefunctions.mark", value=extra(vcenter)["vspherefunctions.mark"])
    spec = vim.vm.ConfigSpec(uuid=config["uuid"], instanceUuid=config["instanceUuid"], extraConfig=[mark])
    soap.wait(soap.find("/DC0/vm/demo/machines/worker-2").ReconfigVM_Task(spec))


def test_m42_only_addresses_of_real_cards_are_told(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        assert status(ctx).addresses == ()
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", OURS, "-e", "SET.guest.ipAddress=10.0.0.21")
        assert [one.address for one in status(ctx).addresses] == ["10.0.0.21"]
