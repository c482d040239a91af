"""create_machine: the ways to name a template, customization specs and the wait for an address."""

import json

import pytest
from pyVmomi import vim

from support.gateway import error_of
from support.machines import at, create, creation, end, info, status
from support.soap import Soap
from support.wire import recorded, texts_in
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.steps import Step

TEMPLATE = "/DC0/vm/templates/ubuntu-24.04"
OURS = "/DC0/vm/demo/machines/worker-1"


def _twin(vcenter: SimulatedVCenter) -> None:
    """Make a second template of the same name in another folder."""
    with Soap(vcenter) as soap:
        spec = vim.vm.CloneSpec(
            location=vim.vm.RelocateSpec(pool=soap.find("/DC0/host/DC0_C0/Resources")),
            powerOn=False,
            template=True,
        )
        where = soap.find("/DC0/vm/demo")
        soap.wait(soap.find(TEMPLATE).CloneVM_Task(folder=where, name="ubuntu-24.04", spec=spec))


@pytest.mark.parametrize("by", ["uuid", "instanceUuid", "reference", "name", "path"])
def test_m14_a_template_is_named_by_path_uuid_reference_or_name(
    shared_vcenter: SimulatedVCenter, by: str
) -> None:
    config = info(shared_vcenter, TEMPLATE)["config"]
    given = {
        "uuid": config["uuid"].upper(),
        "instanceUuid": config["instanceUuid"],
        "reference": info(shared_vcenter, TEMPLATE)["self"]["value"],
        "name": "ubuntu-24.04",
        "path": "/templates/ubuntu-24.04/",
    }[by]
    name = f"by-{by}"
    with at(shared_vcenter) as ctx:
        made = create(ctx, name, templateVM=given)
        assert create(ctx, name, templateVM=given) == made


def test_m14_a_name_of_two_templates_is_refused_with_both_paths(vcenter: SimulatedVCenter) -> None:
    _twin(vcenter)
    with at(vcenter) as ctx:
        refused = error_of(create, ctx, templateVM="ubuntu-24.04")
        assert refused.code is Code.INVALID_ARGUMENT
        (detail,) = refused.details
        assert detail.field == "providerSpec.templateVM"
        assert detail.candidates == ("demo/ubuntu-24.04", "templates/ubuntu-24.04")
        assert vcenter.control.calls()["CloneVM_Task"] == 1
        create(ctx, templateVM="demo/ubuntu-24.04")


@pytest.mark.parametrize(
    "given", ["nope", "vm-999999", "422e4956-ad22-1139-6d72-59cc8f26bc90", "demo", "nope/ubuntu-24.04"]
)
def test_a_template_that_is_not_there_is_refused(shared_vcenter: SimulatedVCenter, given: str) -> None:
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, templateVM=given)
    (detail,) = refused.details
    assert detail.field == "providerSpec.templateVM"
    assert detail.candidates == ("templates/ubuntu-24.04",)


def test_a_template_that_is_not_where_it_is_said_is_refused_with_the_vms_that_are_there(
    vcenter: SimulatedVCenter,
) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        for given in ("demo/machines/ubuntu", "/demo/machines/"):
            (detail,) = error_of(create, ctx, "worker-2", templateVM=given).details
            assert detail.candidates == ("demo/machines/worker-1",)
        (detail,) = error_of(create, ctx, "worker-2", templateVM="templates/ubuntu-22.04").details
        assert detail.candidates == ("templates/ubuntu-24.04",)


def test_a_name_means_templates_and_no_machine(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        refused = error_of(create, ctx, "worker-2", templateVM="worker-1")
    assert [one.field for one in refused.details] == ["providerSpec.templateVM"]


def test_a_template_that_was_moved_from_its_path_is_not_cloned_from_memory(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("object.mv", TEMPLATE, "/DC0/vm/demo")
        refused = error_of(create, ctx, "worker-2")
    assert [one.field for one in refused.details] == ["providerSpec.templateVM"]


def test_a_template_of_a_reference_that_moved_is_looked_up_anew(vcenter: SimulatedVCenter) -> None:
    reference = info(vcenter, TEMPLATE)["self"]["value"]
    with at(vcenter) as ctx:
        create(ctx, templateVM=reference)
        vcenter.govc("object.rename", TEMPLATE, "renamed")
        create(ctx, "worker-2", templateVM=reference)


def test_a_customization_spec_goes_into_the_clone(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, customization="vcsim-linux")
    clone = next(body for body in sent if b"CloneVM_Task" in body)
    assert texts_in(clone, "timeZone") == ["Pacific/Apia"]


def test_a_customization_spec_that_is_not_there_is_refused_with_those_that_are(
    shared_vcenter: SimulatedVCenter,
) -> None:
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, customization="nope", network="blue")
    details = {one.field: one.candidates for one in refused.details}
    assert details.keys() == {"providerSpec.customization", "providerSpec.network"}
    assert "vcsim-linux" in details["providerSpec.customization"]


def test_a_customization_spec_for_another_number_of_cards_is_refused(
    shared_vcenter: SimulatedVCenter,
) -> None:
    cards = [{"name": "VM Network"}, {"name": "DC0_DVPG0"}]
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, customization="vcsim-linux", network=None, networks=cards)
    (detail,) = refused.details
    assert (detail.field, detail.reason) == (
        "providerSpec.customization",
        "it describes 1 network cards and the machine has 2",
    )


def _has_address(vcenter: SimulatedVCenter, address: str) -> None:
    """Have the guest report an address, as VMware Tools do."""
    vcenter.govc("vm.change", "-vm", OURS, "-e", f"SET.guest.ipAddress={address}")


def test_a_create_waits_for_an_address_and_tells_it(vcenter: SimulatedVCenter) -> None:
    """M42: an address of the link alone is none, and no address for a while is no error."""
    with at(vcenter) as ctx:
        began = create_machine(creation(waitForIP=True), ctx)
        while (step := next(began)).phase != "wait_for_ip":
            pass
        assert step.message == "waiting for an address of the guest"
        assert json.loads(step.state)["phase"] == "wait_for_ip"
        _has_address(vcenter, "fe80::1")
        assert next(began).phase == "wait_for_ip"
        assert error_of(status, ctx).code is Code.UNINITIALIZED
        _has_address(vcenter, "2001:db8::7")
        made = end(began)
        assert [(one.type, one.address) for one in made.addresses] == [("InternalIP", "2001:db8::7")]
        assert status(ctx).phase == "Running"


def test_the_wait_for_an_address_has_an_end_and_the_next_try_waits_on(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        ended = error_of(create, ctx, waitForIP=True, waitForIPSeconds=1)
        assert ended.code is Code.DEADLINE_EXCEEDED
        assert "no address after 1 s" in ended.message
        assert json.loads(ended.last_known_state or "")["phase"] == "wait_for_ip"
        _has_address(vcenter, "10.0.0.7")
        made = create(ctx, state=ended.last_known_state, waitForIP=True, waitForIPSeconds=1)
    assert [one.address for one in made.addresses] == ["10.0.0.7"]
    assert vcenter.control.calls()["CloneVM_Task"] == 1


def test_a_machine_in_service_is_not_waited_for(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        began = create_machine(creation(waitForIP=True), ctx)
        while next(began).phase != "wait_for_ip":
            pass
        _has_address(vcenter, "10.0.0.7")
        end(began)
        _has_address(vcenter, "fe80::1")
        taken: list[Step] = []
        assert create(ctx, taken=taken, waitForIP=True).addresses == ()
    assert taken == []


def test_nothing_is_waited_for_unasked(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        taken: list[Step] = []
        create(ctx, taken=taken, waitForIPSeconds=1)
    assert "wait_for_ip" not in {step.phase for step in taken}
