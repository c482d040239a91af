"""create_machine on the simulated vCenter."""

import gzip
import json
import random
from base64 import b64decode
from typing import Any

import pytest
from pyVmomi import vim

from support.gateway import end_other_sessions, error_of, opened
from support.machines import (
    OTHERS,
    OWNER,
    SPEC,
    TAGS,
    at,
    create,
    creation,
    delete,
    end,
    eventually,
    extra,
    foreign,
    info,
    status,
    vms,
)
from support.proxy import Proxy
from support.wire import besides_waiting, options_in, recorded, texts_in
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineRequest
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.runtime.drive import drive
from vsphere_functions.steps import Step
from vsphere_functions.vsphere import storage
from vsphere_functions.vsphere.specs import storage_question

OURS = "/DC0/vm/demo/machines/worker-1"
POOL = "/DC0/host/DC0_C0/Resources"


def test_a_machine_is_made_as_its_spec_says(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, user_data="#cloud-config\nhostname: x\n") as ctx:
        made = create(ctx, extraConfig={"sched.swap.vmxSwapEnabled": "FALSE"}, guestId="ubuntu64Guest")
    vm = info(vcenter)
    assert str(made.provider_id) == f"vsphere://eu-1/{vm['config']['uuid']}"
    assert made.node_name == "worker-1"
    assert vm["runtime"]["powerState"] == "poweredOn"
    assert (vm["config"]["hardware"]["numCPU"], vm["config"]["hardware"]["memoryMB"]) == (2, 4096)
    devices = vm["config"]["hardware"]["device"]
    disks = [device for device in devices if "capacityInKB" in device]
    assert [disk["capacityInKB"] for disk in disks] == [20 * 1024 * 1024]
    assert disks[0]["backing"]["fileName"].startswith("[we ird (1)] worker-1/")
    cards = [device for device in devices if "macAddress" in device]
    portgroup = vcenter.govc("object.collect", "-s", "/DC0/network/DC0_DVPG0", "key").strip()
    assert [card["backing"]["port"]["portgroupKey"] for card in cards] == [portgroup]
    kept = extra(vcenter)
    assert kept["sched.swap.vmxSwapEnabled"] == "FALSE"
    assert gzip.decompress(b64decode(kept["guestinfo.userdata"])) == b"#cloud-config\nhostname: x\n"
    assert kept["guestinfo.userdata.encoding"] == "gzip+base64"
    metadata = json.loads(gzip.decompress(b64decode(kept["guestinfo.metadata"])))
    assert metadata == {"instance-id": vm["config"]["instanceUuid"], "local-hostname": "worker-1"}
    shown = vcenter.govc("fields.info", "-json", OURS)["info"]
    assert {field["key"]: field["value"] for field in shown} == TAGS


def test_the_mark_says_whose_the_machine_is(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
    config, kept = info(vcenter)["config"], extra(vcenter)
    mark = json.loads(kept["vspherefunctions.mark"])
    assert mark == {
        "owner": OWNER,
        "machine": "worker-1",
        "instance_uuid": config["instanceUuid"],
        "uuid": config["uuid"],
        "incarnation": config["uuid"],
        "digest": mark["digest"],
        "region": "eu-1",
        "placement": "DC0/vm/demo/machines",
        "phase": "ready",
        "maker": ctx.maker,
    }
    disk = next(device for device in config["hardware"]["device"] if "capacityInKB" in device)
    assert json.loads(kept["vspherefunctions.born"]) == [[disk["key"], disk["backing"]["uuid"].lower()]]


def test_a_second_create_makes_no_second_machine(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        first = create(ctx)
        before = vms(vcenter)
        vcenter.control.reset_calls()
        assert create(ctx) == first
    assert vcenter.control.calls()["CloneVM_Task"] == 0
    assert vms(vcenter) == before


def test_a_create_on_a_warm_process_keeps_to_its_calls(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 8 calls and one per custom attribute, besides waiting."""
    with at(vcenter) as ctx:
        create(ctx)
        sent = recorded(monkeypatch)
        create(ctx, "worker-2")
        assert besides_waiting(sent) == 8 + len(TAGS)


@pytest.mark.parametrize("steps", range(1, 9))
def test_m08_a_create_that_ends_after_any_step_is_finished_by_the_next(
    vcenter: SimulatedVCenter, steps: int
) -> None:
    with at(vcenter) as ctx:
        before, last = vms(vcenter), None
        broken = create_machine(creation(), ctx)
        for _ in range(steps):
            last = next(broken).state
        broken.close()
        made = create(ctx, state=last)
        assert status(ctx).provider_id == made.provider_id
    assert vms(vcenter) == sorted([*before, OURS])
    assert vcenter.control.calls()["CloneVM_Task"] == 1
    assert info(vcenter)["runtime"]["powerState"] == "poweredOn"


def test_m01_a_create_joins_the_clone_that_runs(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=1500)
    with at(vcenter) as ctx:
        first = create_machine(creation(), ctx)
        state = next(first).state
        taken: list[Step] = []
        joined = create(ctx, taken=taken, state=state)
        assert str(joined.provider_id) == str(end(first).provider_id)
    assert taken[0].message.startswith("waiting for the task")
    assert vcenter.control.calls()["CloneVM_Task"] == 1


@pytest.mark.parametrize(
    "state",
    [
        "not json",
        "[" * 20000,
        '{"v":2,"phase":"clone"}',
        '{"v":1,"phase":"clone","task":7}',
        '{"v":1,"phase":"clone","vcenter":"another","instanceUuid":"x","task":"task-1"}',
        '["v",1]',
        "null",
    ],
)
def test_m03_a_state_that_says_nothing_of_this_machine_changes_nothing(
    shared_vcenter: SimulatedVCenter, state: str
) -> None:
    with at(shared_vcenter) as ctx:
        made = create(ctx)
        shared_vcenter.control.reset_calls()
        assert create(ctx, state=state) == made
        assert shared_vcenter.control.calls()["CloneVM_Task"] == 0
        delete(ctx)


def test_m03_a_state_of_another_machine_touches_neither(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        other = create(ctx, "worker-2")
        made = create(ctx, state=other.last_known_state)
        assert made.provider_id != other.provider_id
        assert status(ctx, "worker-2").provider_id == other.provider_id


@pytest.mark.parametrize("phase", ["clone", "power_on"])
def test_m03_a_state_that_names_another_machines_task_is_only_waited_for(
    vcenter: SimulatedVCenter, phase: str
) -> None:
    with at(vcenter) as ctx:
        taken: list[Step] = []
        other = create(ctx, "worker-2", taken)
        task = next(json.loads(step.state)["task"] for step in taken if step.phase == phase)
        first = create(ctx)
        delete(ctx)
        known = json.loads(first.last_known_state or "")
        ref = json.loads(other.last_known_state or "")["vm"]
        made = create(ctx, state=json.dumps(known | {"phase": "clone", "task": task, "vm": ref}))
        assert len({first.provider_id, other.provider_id, made.provider_id}) == 3
        assert status(ctx).provider_id == made.provider_id
        assert status(ctx, "worker-2").phase == "Running"


def test_m04_a_lost_reply_to_the_clone_is_no_second_machine(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    vcenter.control.delay(CloneVm=500)
    with (
        Proxy(vcenter.host, vcenter.port, cert=vcenter.ca_file, key=vcenter.key_file) as proxy,
        at(vcenter, proxy.port) as ctx,
    ):
        proxy.drop_reply("CloneVM_Task")
        lost = error_of(create, ctx)
        assert (lost.code, lost.last_known_state) == (Code.UNAVAILABLE, None)
        made = create(ctx)
        assert status(ctx).provider_id == made.provider_id
    assert vms(vcenter) == sorted([*before, OURS])


def test_m04_a_name_taken_by_ours_of_another_spec_is_left_alone(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        refused = error_of(create, ctx, memory=8192)
    assert refused.code is Code.ALREADY_EXISTS
    assert refused.provider_id == str(made.provider_id)
    assert "delete it first, or take another name" in refused.message
    assert info(vcenter)["config"]["hardware"]["memoryMB"] == 4096


def test_m12_a_name_of_81_characters_is_refused_before_any_call(vcenter: SimulatedVCenter) -> None:
    refused = error_of(creation, "x" * 81)
    assert refused.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in refused.details] == ["machineName"]
    with at(vcenter) as ctx:
        assert create(ctx, "x" * 80).node_name == "x" * 80


@pytest.mark.parametrize("name", ["VM-Köln €", "we ird (1)", "[odd", "x" * 80])
def test_m16_odd_names_work(shared_vcenter: SimulatedVCenter, name: str) -> None:
    with at(shared_vcenter) as ctx:
        made = create(ctx, name)
        assert status(ctx, name).node_name == name
        assert f"/DC0/vm/demo/machines/{name}" in vms(shared_vcenter)
        assert create(ctx, name) == made
        assert delete(ctx, name).provider_id == made.provider_id


def test_m15_a_foreign_vm_of_the_name_is_left_alone(vcenter: SimulatedVCenter) -> None:
    foreign(vcenter)
    before = info(vcenter)
    with at(vcenter) as ctx:
        assert error_of(create, ctx).code is Code.ALREADY_EXISTS
        assert delete(ctx).provider_id is None
    assert info(vcenter)["config"] == before["config"]


def test_m10_machines_of_one_name_in_two_places_are_told_apart(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        here = create(ctx, datacenter="DC0")
        there = create(ctx, tags=OTHERS, datacenter="DC1", folder="demo/machines")
        nested = create(ctx, tags=OTHERS | {"mcm.gardener.cloud/role": "etcd"}, folder="demo/machines/a/b")
        assert len({here.provider_id, there.provider_id, nested.provider_id}) == 3
        assert delete(ctx).provider_id == here.provider_id
    left = [path for path in vms(vcenter) if path.endswith("/worker-1")]
    assert left == ["/DC0/vm/demo/machines/a/b/worker-1", "/DC1/vm/demo/machines/worker-1"]


def test_m10_the_machine_is_found_wherever_it_was_moved_to(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        vcenter.govc("object.mv", OURS, "/DC0/vm/demo/machines/a")
        vcenter.govc("object.rename", "/DC0/vm/demo/machines/a/worker-1", "renamed")
        assert create(ctx) == made
        assert delete(ctx).provider_id == made.provider_id


def test_m16_the_text_of_a_fault_never_breaks_the_rendered_error(vcenter: SimulatedVCenter) -> None:
    vcenter.control.add_fault("CloneVM_Task", "InvalidName", fields={"name": "[we ird] [odd"})
    with at(vcenter) as ctx:
        failed = error_of(create, ctx)
    assert "[we ird] [odd" in failed.message
    assert str(failed).count("[") == str(failed).count("]")


def test_all_violations_come_at_once_and_nothing_is_changed(vcenter: SimulatedVCenter) -> None:
    """M53 among them: the network is missing."""
    wrong = {
        "folder": "demo/nope",
        "computeCluster": "DC9_C0",
        "datastore": "full",
        "network": "blue",
        "templateVM": "templates/nope",
    }
    vcenter.control.reset_calls()
    with at(vcenter) as ctx:
        refused = error_of(create, ctx, **wrong)
    assert refused.code is Code.INVALID_ARGUMENT
    assert refused.message == "5 problems with the request; nothing was changed"
    details = {detail.field: detail for detail in refused.details}
    assert details.keys() == {f"providerSpec.{name}" for name in wrong}
    assert details["providerSpec.network"].reason == 'no network "blue" in datacenter DC0'
    assert {"DC0_DVPG0", "VM Network"} <= set(details["providerSpec.network"].candidates)
    assert details["providerSpec.templateVM"].reason == "no VM at templates/nope"
    changes = {"CloneVM_Task", "ReconfigVM_Task", "SetField", "AddCustomFieldDef"}
    assert not changes & vcenter.control.calls().keys()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"datacenter": "DC7"}, "providerSpec.datacenter"),
        ({"datacenter": None}, "providerSpec.datacenter"),
        ({"network": "VM Network", "hostSystem": "h", "computeCluster": None}, "providerSpec.hostSystem"),
        ({"resourcePool": "p", "computeCluster": None}, "providerSpec.resourcePool"),
        ({"systemDisk": {"size": 5}}, "providerSpec.systemDisk.size"),
    ],
    ids=str,
)
def test_m50_m53_one_violation_is_named(shared_vcenter: SimulatedVCenter, spec: Any, field: str) -> None:
    """M50: the disk is smaller than the template's."""
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, **spec)
    assert (refused.code, [detail.field for detail in refused.details]) == (Code.INVALID_ARGUMENT, [field])


@pytest.mark.parametrize(
    "spec",
    [
        {"computeCluster": None, "resourcePool": "DC0_C0/Resources"},
        {"computeCluster": None, "hostSystem": "DC0_H0"},
        {"network": "VM Network"},
        {"folder": None},
        {"datacenter": "/DC0"},
        {"systemDisk": None, "numCpus": None, "memory": None, "region": None},
    ],
    ids=str,
)
def test_every_way_to_name_a_place_works(shared_vcenter: SimulatedVCenter, spec: Any) -> None:
    with at(shared_vcenter) as ctx:
        made = create(ctx, **spec)
        assert status(ctx).provider_id == made.provider_id
        delete(ctx)


def test_a_template_that_was_renamed_is_not_cloned_from_memory(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        vcenter.govc("object.rename", "/DC0/vm/templates/ubuntu-24.04", "old")
        refused = error_of(create, ctx, "worker-2")
    assert [detail.field for detail in refused.details] == ["providerSpec.templateVM"]


def test_m51_a_storage_pod_says_where_the_machine_lies(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx, datastore=None, datastoreCluster="DC0_POD0")
    disk = next(one for one in info(vcenter)["config"]["hardware"]["device"] if "capacityInKB" in one)
    assert disk["backing"]["fileName"].startswith("[PodDS_0] ")


def test_m51_a_pod_that_recommends_nothing_is_exhausted(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator recommends nothing when it is not told the pod twice."""
    asked = storage_question

    def asking(*arguments: Any) -> Any:
        question = asked(*arguments)
        question.podSelectionSpec.initialVmConfig = []
        return question

    monkeypatch.setattr(storage, "storage_question", asking)
    monkeypatch.setattr(storage, "reason", lambda _answer: ": and why")
    with at(vcenter) as ctx:
        failed = error_of(create, ctx, datastore=None, datastoreCluster="DC0_POD0")
    assert failed.code is Code.RESOURCE_EXHAUSTED
    assert failed.message == "the datastore cluster DC0_POD0 recommends no datastore: and why"
    assert vcenter.control.calls()["CloneVM_Task"] == 0


def test_m51_the_reason_of_a_pod_is_told() -> None:
    faults = vim.cluster.DrsFaults.FaultsByVm(
        fault=[vim.fault.NoDiskSpace(datastore="d", msg="no room on d")]
    )
    answer = vim.storageDrs.StoragePlacementResult(
        drsFault=vim.cluster.DrsFaults(reason="storagePlacement", faultsByVm=[faults])
    )
    assert storage.reason(answer) == ": storagePlacement; no room on d"
    assert storage.reason(vim.storageDrs.StoragePlacementResult()) == ""


def test_an_ambiguous_name_is_refused_with_the_paths_it_may_mean(vcenter: SimulatedVCenter) -> None:
    vcenter.govc(
        "pool.create", "/DC0/host/DC0_C0/Resources/DC0_C0_RP1/twin", "/DC0/host/DC0_C0/Resources/twin"
    )
    with at(vcenter) as ctx:
        refused = error_of(create, ctx, computeCluster=None, resourcePool="twin")
        assert refused.details[0].candidates == (
            "DC0_C0/Resources/DC0_C0_RP1/twin",
            "DC0_C0/Resources/twin",
        )
        create(ctx, computeCluster=None, resourcePool="DC0_C0/Resources/twin")


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("NoDiskSpace", Code.RESOURCE_EXHAUSTED),
        ("InsufficientResourcesFault", Code.RESOURCE_EXHAUSTED),
        ("HostNotConnected", Code.UNAVAILABLE),
        ("TaskInProgress", Code.ABORTED),
    ],
)
def test_m52_a_fault_of_the_clone_is_its_code(vcenter: SimulatedVCenter, fault: str, code: Code) -> None:
    vcenter.control.add_fault("CloneVM_Task", fault, scope="task", count=1)
    with at(vcenter) as ctx:
        failed = error_of(create, ctx)
        assert failed.code is code
        assert create(ctx).node_name == "worker-1"


def test_m02_a_create_that_runs_out_of_time_leaves_a_state_that_resumes(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=1500)

    def over(step: Step) -> None:
        raise CallError(Code.DEADLINE_EXCEEDED, f"no time is left after {step.phase}")

    with at(vcenter) as ctx:
        with pytest.raises(CallError) as ended:
            drive(create_machine, creation(), ctx, over)
        assert ended.value.code is Code.DEADLINE_EXCEEDED
        state = ended.value.last_known_state
        assert json.loads(state or "")["phase"] == "clone"
        create(ctx, state=state)
    assert vcenter.control.calls()["CloneVM_Task"] == 1


def test_m05_a_machine_that_is_on_already_is_no_failure(vcenter: SimulatedVCenter) -> None:
    vcenter.control.add_fault(
        "PowerOnVM_Task",
        "InvalidPowerState",
        scope="task",
        fields={"requestedState": "poweredOn", "existingState": "poweredOn"},
        count=1,
    )
    with at(vcenter) as ctx:
        assert create(ctx).node_name == "worker-1"
        vcenter.control.add_fault(
            "PowerOnVM_Task",
            "InvalidPowerState",
            scope="task",
            fields={"requestedState": "poweredOn", "existingState": "suspended"},
        )
        assert error_of(create, ctx).code is Code.FAILED_PRECONDITION


@pytest.mark.parametrize("fault", ["InvalidState", "HostNotConnected"])
def test_m41_a_host_that_takes_no_machine_is_unavailable_and_the_next_create_finishes(
    vcenter: SimulatedVCenter, fault: str
) -> None:
    vcenter.control.add_fault("PowerOnVM_Task", fault, scope="task", count=1)
    with at(vcenter) as ctx:
        assert error_of(create, ctx).code is Code.UNAVAILABLE
        assert error_of(status, ctx).code is Code.UNINITIALIZED
        create(ctx)
        assert status(ctx).phase == "Running"
    assert vcenter.control.calls()["CloneVM_Task"] == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [("host.maintenance.enter", "maintenance mode"), ("host.disconnect", "disconnected")],
)
def test_m41_a_named_host_out_of_service_is_unavailable_before_the_clone(
    vcenter: SimulatedVCenter, command: str, said: str
) -> None:
    vcenter.govc(command, "/DC0/host/DC0_H0/DC0_H0")
    with at(vcenter) as ctx:
        failed = error_of(create, ctx, computeCluster=None, hostSystem="DC0_H0")
    assert failed.code is Code.UNAVAILABLE
    assert said in failed.message
    assert vcenter.control.calls()["CloneVM_Task"] == 0


def test_m60_a_session_that_ends_while_a_task_is_awaited_is_made_anew(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=1000)
    with at(vcenter) as ctx, opened(vcenter) as admin:
        began = create_machine(creation(), ctx)
        next(began)
        assert end_other_sessions(admin) == 1
        assert end(began).node_name == "worker-1"
    assert vcenter.control.calls()["Login"] == 3  # the first, the admin's, and one new


class Lease:
    """A fence whose lease can be lost."""

    def __init__(self, *, checks: int = 1000, stands: bool = True) -> None:
        self.checks, self.stands = checks, stands

    def check(self) -> None:
        self.checks -= 1
        if self.checks < 0:
            raise CallError(Code.ABORTED, "the lease was not renewed")

    def confirm(self) -> None:
        if not self.stands:
            raise CallError(Code.ABORTED, "the lease is lost")


def test_nothing_is_changed_without_the_lease(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    with at(vcenter, fence=Lease(checks=0)) as ctx:
        assert error_of(create, ctx).code is Code.ABORTED
    assert vms(vcenter) == before
    assert not {"CloneVM_Task", "AddCustomFieldDef"} & vcenter.control.calls().keys()


def test_a_clone_whose_lease_was_lost_meanwhile_goes(vcenter: SimulatedVCenter) -> None:
    before = vms(vcenter)
    with at(vcenter, fence=Lease(stands=False)) as ctx:
        assert error_of(create, ctx).code is Code.ABORTED
        eventually(lambda: vms(vcenter) == before)


def test_a_clone_that_another_call_has_taken_over_stays(vcenter: SimulatedVCenter) -> None:
    vcenter.control.delay(CloneVm=800)
    lease = Lease()
    with at(vcenter, fence=lease) as stopped, at(vcenter) as other:
        began = create_machine(creation(), stopped)
        state = next(began).state
        lease.stands = False
        made = create(other, state=state)
        assert error_of(end, began).code is Code.ABORTED
        assert status(other).provider_id == made.provider_id


def test_a_clone_gives_way_to_an_older_one_of_the_same_identity(vcenter: SimulatedVCenter) -> None:
    """Two calls without a common lease, in two folders, so that their names do not collide."""
    vcenter.control.delay(CloneVm=800)
    with at(vcenter) as ctx, at(vcenter) as other:
        first, second = create_machine(creation(), ctx), create_machine(creation(folder="demo"), other)
        next(first), next(second)
        outcomes = [_outcome(first), _outcome(second)]
    assert sorted(str(outcome) for outcome in outcomes if isinstance(outcome, Code)) == ["Aborted"]
    assert len([path for path in vms(vcenter) if path.endswith("/worker-1")]) == 1


def _outcome(steps: Any) -> Any:
    try:
        return end(steps)
    except CallError as error:
        return error.code


def test_a_copy_that_carries_the_mark_is_not_taken_for_the_machine(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        made = create(ctx)
        mark = extra(vcenter)["vspherefunctions.mark"]
        vcenter.govc(
            "vm.clone", "-dc", "DC0", "-vm", OURS, "-on=false", "-ds", "LocalDS_0", "-pool", POOL, "copy"
        )
        copy = next(path for path in vms(vcenter) if path.endswith("/copy"))
        vcenter.govc("vm.change", "-vm", copy, "-e", f"vspherefunctions.mark={mark}")
        assert create(ctx) == made
        assert delete(ctx).provider_id == made.provider_id
        assert copy in vms(vcenter)
        assert delete(ctx).provider_id is None
    assert copy in vms(vcenter)


def test_user_data_over_64_kib_is_refused_with_its_size_before_the_clone(vcenter: SimulatedVCenter) -> None:
    noise = random.Random(7).randbytes(64 * 1024).hex()
    with at(vcenter, user_data=noise) as ctx:
        refused = error_of(create, ctx)
    assert refused.code is Code.INVALID_ARGUMENT
    assert [detail.field for detail in refused.details] == ["secrets.userData"]
    assert "at most 65536" in refused.details[0].reason
    assert vcenter.control.calls()["CloneVM_Task"] == 0


def test_renewed_user_data_reaches_a_machine_that_is_half_built(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, user_data="token: old") as ctx:
        began = create_machine(creation(), ctx)
        while next(began).phase != "show_tags":
            pass
        began.close()
    with at(vcenter, user_data="token: new") as ctx:
        create(ctx)
    assert gzip.decompress(b64decode(extra(vcenter)["guestinfo.userdata"])) == b"token: new"


def test_a_template_hands_down_neither_mark_nor_bootstrap_data(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator does not copy a template's extraConfig, the product does: so we look at what we send."""
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx)
    keys = options_in(next(body for body in sent if b"CloneVM_Task" in body))
    for key in (
        "vspherefunctions.born",
        "guestinfo.vendordata",
        "guestinfo.userdata",
    ):
        assert keys[key] == ""
    assert keys["vspherefunctions.mark"]


def test_the_card_gets_an_address_of_its_own(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator keeps the template's address: so we look at what we send."""
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx)
    clone = next(body for body in sent if b"CloneVM_Task" in body)
    assert texts_in(clone, "addressType") == ["generated"]
    assert texts_in(clone, "macAddress") == [""]


def test_m57_no_secret_is_in_a_step_a_result_or_an_error(vcenter: SimulatedVCenter) -> None:
    with at(vcenter, user_data="password: swordfish") as ctx:
        taken: list[Step] = []
        made = create(ctx, taken=taken)
        vcenter.control.add_fault("PowerOffVM_Task", "GenericVmConfigFault", scope="task", count=1)
        failed = error_of(delete, ctx)
    packed = extra(vcenter)["guestinfo.userdata"]
    for text in (repr(taken), repr(made), repr(ctx), repr(failed), str(failed)):
        assert not any(secret in text for secret in ("swordfish", vcenter.password, packed))


def test_a_spec_that_is_refused_never_names_a_secret() -> None:
    data = {"machineName": "w", "providerSpec": SPEC, "secrets": {"userData": "swordfish", "no": "swordfish"}}
    refused = error_of(CreateMachineRequest.parse, data)
    assert "swordfish" not in repr(refused.details) + str(refused)
