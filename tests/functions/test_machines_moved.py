"""Machines in nested folders, moved ones, and odd names: nothing relies on where something lay or how it is spelt."""

import pytest

from support.machines import at, create, creation, delete, end, listing, status, vms
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

OURS = "/DC0/vm/demo/machines/worker-1"
NESTED = "/DC0/vm/demo/machines/a/b/worker-1"


def test_m13_create_list_and_delete_work_in_a_nested_folder(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx, folder="demo/machines/a/b")
        assert NESTED in vms(vcenter)
        assert listing(ctx).machine_list == {str(made.provider_id): "worker-1"}
        assert delete(ctx).provider_id == made.provider_id
    assert NESTED not in vms(vcenter)


@pytest.mark.parametrize("phase", ["record_birth", "show_tags", "power_on"])
def test_m56_a_machine_that_is_moved_and_renamed_during_its_create_is_finished(
    vcenter: SimulatedVCenter, phase: str
) -> None:
    with at(vcenter) as ctx:
        began = create_machine(creation(), ctx)
        while next(began).phase != phase:
            pass
        vcenter.govc("object.mv", OURS, "/DC0/vm/demo/machines/a")
        vcenter.govc("object.rename", "/DC0/vm/demo/machines/a/worker-1", "moved")
        made = end(began)
        assert status(ctx).provider_id == made.provider_id
        assert create(ctx).provider_id == made.provider_id
    assert [path for path in vms(vcenter) if "machines" in path] == ["/DC0/vm/demo/machines/a/moved"]


def test_m11_a_machine_whose_vm_has_a_name_that_no_create_takes_is_found_and_deleted(
    vcenter: SimulatedVCenter,
) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.govc("object.rename", OURS, "50%25 a%2fb")
        assert status(ctx).provider_id == made.provider_id
        assert delete(ctx).provider_id == made.provider_id
        assert not listing(ctx).machine_list
