"""Requests to results: producers, a real NATS server, worker processes, and a simulated vCenter."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from nats.aio.msg import Msg

from support.jetstream import Producer, until
from support.machines import SPEC, TAGS, extra, info, vms
from support.stacks import data_of, messages_on, producing
from vsphere_events.client import request_event
from vsphere_events.envelope import Mode
from vsphere_functions.local.stack import Stack

OURS = "/DC0/vm/demo/machines/worker-1"
CREATE = {"machineName": "worker-1", "providerSpec": SPEC, "secrets": {"userData": "#cloud-config\n"}}
DELETE = {"machineName": "worker-1", "providerSpec": {"tags": TAGS}}


@pytest.fixture
def stack(vcsim_binary: object) -> Iterator[Stack]:
    assert vcsim_binary
    with Stack(sections={"nats": {"ack_wait_seconds": 2}, "limits": {"retry_seconds": 0.2}}) as one:
        yield one


@pytest.mark.parametrize("mode", list(Mode))
def test_a_request_makes_and_unmakes_a_machine(stack: Stack, mode: Mode) -> None:
    before = vms(stack.vcenter)
    stack.start_worker()

    async def work(producer: Producer) -> None:
        made = await producer.ask(request_event("create_machine", CREATE, id="req-1"), mode)
        assert made.type == "io.vspherefunctions.create_machine.succeeded.v1"
        assert (made.subject, made.extension("correlationid")) == ("worker-1", "req-1")
        config = info(stack.vcenter)["config"]
        assert data_of(made)["providerID"] == f"vsphere://eu-1/{config['uuid']}"
        assert json.loads(data_of(made)["lastKnownState"])["phase"] == "ready"
        asked = await producer.ask(request_event("get_machine_status", DELETE), mode)
        assert data_of(asked)["phase"] == "Running"
        gone = await producer.ask(request_event("delete_machine", DELETE), mode)
        assert data_of(gone)["providerID"] == data_of(made)["providerID"]
        steps = [
            json.loads(one.data).get("data", json.loads(one.data))["step"] for one in producer.on("progress")
        ]
        assert {"clone", "record_birth", "show_tags", "power_on", "ready", "destroy"} <= set(steps)

    producing(stack, work)
    assert vms(stack.vcenter) == before


def test_m01_four_deliveries_over_two_workers_make_one_machine(stack: Stack) -> None:
    before = vms(stack.vcenter)
    stack.vcenter.control.delay(CloneVm=2000)
    for _ in range(2):
        stack.start_worker()

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", CREATE, id="req-1")
        await asyncio.gather(*(producer.publish(event) for _ in range(4)))
        result = await producer.result(event)
        await producer.settled()
        assert result.type == "io.vspherefunctions.create_machine.succeeded.v1"
        assert await messages_on(producer, event) == 1
        heard = [one for one in producer.on("result") if one.data]
        assert len({one.data for one in heard}) == 1

    producing(stack, work)
    assert stack.vcenter.control.calls()["CloneVM_Task"] == 1
    assert vms(stack.vcenter) == sorted([*before, OURS])


def test_e14_a_worker_killed_in_the_middle_of_a_clone_is_taken_over(stack: Stack) -> None:
    before = vms(stack.vcenter)
    stack.vcenter.control.delay(CloneVm=4000)
    first = stack.start_worker()

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", CREATE, id="req-1")
        await producer.publish(event)
        await until(lambda: producer.on("progress"))
        first.process.kill()
        first.process.wait()
        stack.start_worker()
        result = await producer.result(event, seconds=30)
        await producer.settled()
        assert result.type == "io.vspherefunctions.create_machine.succeeded.v1"
        assert await messages_on(producer, event) == 1

    producing(stack, work)
    assert stack.vcenter.control.calls()["CloneVM_Task"] == 1
    assert vms(stack.vcenter) == sorted([*before, OURS])
    assert info(stack.vcenter)["runtime"]["powerState"] == "poweredOn"


def test_e20_the_same_event_again_is_answered_by_the_stored_result(stack: Stack) -> None:
    stack.start_worker()

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", CREATE, id="req-1")
        first = await producer.ask(event)
        await producer.ask(request_event("delete_machine", DELETE))
        heard = len(producer.on("result"))
        await producer.publish(event)
        await until(lambda: len(producer.on("result")) > heard)
        about = [one.data for one in producer.on("result") if ".create_machine." in one.subject]
        assert len(about) == 2
        assert about[0] == about[1]
        assert await producer.result(event) == first
        assert await messages_on(producer, event) == 1

    producing(stack, work)
    assert OURS not in vms(stack.vcenter)
    assert stack.vcenter.control.calls()["CloneVM_Task"] == 1


def test_e13_a_worker_that_is_told_to_stop_hands_the_create_on(stack: Stack) -> None:
    before = vms(stack.vcenter)
    stack.vcenter.control.delay(CloneVm=6000)
    first = stack.start_worker()

    async def work(producer: Producer) -> None:
        event = request_event("create_machine", CREATE, id="req-1")
        await producer.publish(event)
        await until(lambda: producer.on("progress"))
        first.process.terminate()
        assert await asyncio.to_thread(first.process.wait, 20) == 0
        stack.start_worker()
        result = await producer.result(event, seconds=30)
        assert result.type == "io.vspherefunctions.create_machine.succeeded.v1"

    producing(stack, work)
    assert stack.vcenter.control.calls()["CloneVM_Task"] == 1
    assert vms(stack.vcenter) == sorted([*before, OURS])


def test_all_violations_come_back_in_one_failed_result(stack: Stack) -> None:
    stack.start_worker()
    spec = SPEC | {"network": "blue", "templateVM": "templates/nope"}

    async def work(producer: Producer) -> dict[str, Any]:
        event = request_event("create_machine", CREATE | {"providerSpec": spec})
        return data_of(await producer.ask(event))

    error = producing(stack, work)["error"]
    assert (error["code"], error["retryable"]) == ("InvalidArgument", False)
    assert error["message"] == "2 problems with the request; nothing was changed"
    assert {one["field"] for one in error["details"]} == {"providerSpec.network", "providerSpec.templateVM"}


def test_a_fault_that_passes_is_tried_again_and_one_that_stays_is_a_dead_letter(stack: Stack) -> None:
    stack.start_worker()
    stack.vcenter.control.add_fault("CloneVM_Task", "HostNotConnected", scope="task", count=1)

    async def work(producer: Producer) -> None:
        made = await producer.ask(request_event("create_machine", CREATE))
        assert made.type.endswith(".succeeded.v1")
        stack.vcenter.control.add_fault("PowerOffVM_Task", "HostNotConnected", scope="task")
        delete = request_event("delete_machine", DELETE)
        await producer.publish(delete)
        failed = await producer.result(delete, seconds=50)
        error = data_of(failed)["error"]
        assert (error["code"], error["retryable"]) == ("Unavailable", True)
        assert json.loads(data_of(failed)["lastKnownState"])["phase"] == "power_off"
        (dead,) = producer.on("dead")
        assert (dead.headers or {})["vsphere-attempts"] == "5"

    producing(stack, work)


def test_m57_no_secret_is_in_anything_that_a_worker_says(stack: Stack) -> None:
    worker = stack.start_worker()
    secret = "swordfish-3f1c"
    secrets = [secret, stack.vcenter.password]
    data = CREATE | {"secrets": {"userData": f"#cloud-config\npassword: {secret}\n"}}

    async def work(producer: Producer) -> str:
        async def hear(message: Msg) -> None:
            producer.heard.append(message)

        await producer.client.subscribe("$KV.>", cb=hear)  # each state of each record
        made = await producer.ask(request_event("create_machine", data))
        assert made.type.endswith(".succeeded.v1")
        secrets.append(extra(stack.vcenter)["guestinfo.userdata"])
        bad = data | {
            "providerSpec": SPEC | {"memory": "lots"},
            "secrets": {"userData": secret, "nope": secret},
        }
        await producer.ask(request_event("create_machine", bad))
        await producer.ask(request_event("delete_machine", DELETE))
        return "\n".join(f"{one.subject} {one.headers} {one.data!r}" for one in producer.heard)

    said = producing(stack, work) + worker.log.read_text()
    assert "vsphere_operations" in said
    assert [one for one in secrets if one in said] == []


def test_m07_m23_a_machine_that_is_being_made_is_neither_absent_nor_unlisted(stack: Stack) -> None:
    stack.start_worker()
    stack.vcenter.control.delay(CloneVm=4000)

    async def work(producer: Producer) -> None:
        create = request_event("create_machine", CREATE)
        await producer.publish(create)
        await until(lambda: producer.on("progress"))
        listed = data_of(await producer.ask(request_event("list_machines", {"providerSpec": {"tags": TAGS}})))
        assert (listed["machineList"], listed["creating"]) == ({}, ["worker-1"])
        status = data_of(await producer.ask(request_event("get_machine_status", DELETE)))
        assert status["error"]["code"] == "Aborted"
        delete = request_event("delete_machine", DELETE)
        await producer.publish(delete)
        assert (await producer.result(create)).type.endswith(".succeeded.v1")
        assert data_of(await producer.result(delete))["providerID"]
        status = data_of(await producer.ask(request_event("get_machine_status", DELETE)))
        assert status["error"]["code"] == "NotFound"

    producing(stack, work)
    assert OURS not in vms(stack.vcenter)
