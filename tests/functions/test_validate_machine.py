"""validate_machine on the simulated vCenter."""

from typing import Any

import pytest

from support.gateway import error_of
from support.machines import SPEC, at, create, validate, vms
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter

CHANGES = {"CloneVM_Task", "ReconfigVM_Task", "SetField", "AddCustomFieldDef", "PowerOnVM_Task"}


def test_a_sound_request_has_nothing_to_say(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    with at(vcenter) as ctx:
        found = validate(ctx)
    assert (found.violations, found.missing_privileges) == ((), ())
    assert vms(vcenter) == before
    assert not CHANGES & vcenter.control.calls().keys()


def test_what_is_wrong_with_the_data_and_with_the_names_comes_together(vcenter: SimulatedVCenter) -> None:
    wrong = {
        "memory": "lots",
        "numCpus": -1,
        "network": "blue",
        "templateVM": "templates/nope",
        "colour": "red",
    }
    with at(vcenter) as ctx:
        found = validate(ctx, "x" * 81, **wrong)
    named = {one.field: one for one in found.violations}
    fields = {f"providerSpec.{name}" for name in wrong} - {"providerSpec.colour"}
    assert named.keys() == {"machineName", "providerSpec", *fields}
    assert "unknown field" in named["providerSpec"].reason
    assert "DC0_DVPG0" in (named["providerSpec.network"].candidates or ())
    assert not CHANGES & vcenter.control.calls().keys()


@pytest.mark.parametrize("spec", [{"tags": None}, {"network": None}, {"tags": "none"}])
def test_a_spec_with_too_little_in_it_is_judged_by_its_data(
    shared_vcenter: SimulatedVCenter, spec: Any
) -> None:
    with at(shared_vcenter) as ctx:
        found = validate(ctx, **spec)
    assert [one.field for one in found.violations] == [f"providerSpec.{name}" for name in spec]


def test_missing_privileges_are_named_with_their_objects(vcenter: SimulatedVCenter) -> None:
    vcenter.control.deny("Network.Assign", "VirtualMachine.Config.Memory", "Global.ManageCustomFields")
    with at(vcenter) as ctx:
        found = validate(ctx, network="VM Network")
        assert {(one.privilege, one.object) for one in found.missing_privileges} == {
            ("Network.Assign", "DC0/network/VM Network"),
            ("VirtualMachine.Config.Memory", "DC0/vm/demo/machines"),
            ("Global.ManageCustomFields", "the root folder"),
        }
        refused = error_of(create, ctx, network="VM Network")
        assert refused.code is Code.PERMISSION_DENIED
        assert "Network.Assign is missing on DC0/network/VM Network" in refused.message
        assert len(refused.details) == 3
        assert not CHANGES & vcenter.control.calls().keys()
        vcenter.control.deny()
        create(ctx, network="VM Network")


def test_a_create_names_missing_privileges_beside_wrong_names_in_a_dry_run(vcenter: SimulatedVCenter) -> None:
    vcenter.control.deny("Datastore.AllocateSpace")
    with at(vcenter) as ctx:
        found = validate(ctx, network="blue")
    assert [one.field for one in found.violations] == ["providerSpec.network"]
    assert [one.privilege for one in found.missing_privileges] == ["Datastore.AllocateSpace"]
    assert SPEC["network"] != "blue"
