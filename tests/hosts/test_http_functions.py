"""Machines over HTTP: each function as a functions-framework target, and all of them behind the router."""

import signal
from pathlib import Path

import pytest

from support.http_host import request, result_of, running, settings_of, until
from support.machines import SPEC, vms
from vsphere_events.envelope import Mode
from vsphere_functions.local.vcenter import SimulatedVCenter

MACHINE = "/DC0/vm/demo/machines/worker-1"


@pytest.mark.parametrize("mode", Mode)
def test_functions_framework_answers_each_function_with_its_result_event(
    vcenter: SimulatedVCenter, tmp_path: Path, mode: Mode
) -> None:
    """E16, its create half: the body of a finished create is one CloudEvent, the status 200."""
    settings = settings_of(vcenter)
    with running(tmp_path, settings, "create_machine") as host:
        create = request("create_machine", id="create-1", extensions={"traceparent": "00-1-2-01"})
        made = host.call(create, mode)
        assert made.type == "io.vspherefunctions.create_machine.succeeded.v1"
        assert made.data["nodeName"] == "worker-1"
        assert made.data["providerID"].startswith("vsphere://eu-1/")
        assert made.data["lastKnownState"]
        assert (made.id, made.source, made.subject) == (
            "create-1.result",
            "/vsphere-functions/default",
            "worker-1",
        )
        assert made.extensions["causationsource"] == create.source
        assert made.extensions["correlationid"] == "create-1"
        assert made.extensions["traceparent"] == "00-1-2-01"
        assert MACHINE in vms(vcenter)
    with running(tmp_path, settings, "get_machine_status") as host:
        status = host.call(request("get_machine_status"), mode)
        assert status.data["providerID"] == made.data["providerID"]
    with running(tmp_path, settings, "delete_machine") as host:
        gone = host.call(request("delete_machine"), mode)
        assert gone.type == "io.vspherefunctions.delete_machine.succeeded.v1"
        assert MACHINE not in vms(vcenter)


def test_the_router_serves_every_function_by_event_type_and_by_path(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with running(tmp_path, settings_of(vcenter)) as host:
        made = host.call(request("create_machine"))
        status = host.call(request("get_machine_status"), Mode.STRUCTURED, "/get_machine_status")
        assert status.data["providerID"] == made.data["providerID"]
        assert host.call(request("get_volume_ids", data={"pvSpecList": []})).data == {"volumeIDs": []}
        host.call(request("delete_machine"), path="/delete_machine")
        missing = host.call(request("get_machine_status"))
        assert missing.data["error"]["code"] == "NotFound"
        assert MACHINE not in vms(vcenter)


def test_an_invalid_request_is_told_all_that_is_wrong_with_it(
    shared_vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """Any finished request is 200 with its result event, failed ones included."""
    with running(tmp_path, settings_of(shared_vcenter)) as host:
        spec = SPEC | {"network": "nowhere", "templateVM": "nothing"}
        data = {"machineName": "worker-1", "providerSpec": spec}
        refused = host.call(request("create_machine", data=data))
        assert refused.type == "io.vspherefunctions.create_machine.failed.v1"
        assert refused.data["error"]["code"] == "InvalidArgument"
        assert {one["field"] for one in refused.data["error"]["details"]} >= {
            "providerSpec.network",
            "providerSpec.templateVM",
        }


def test_a_repeated_id_gets_the_stored_result_and_makes_no_second_machine(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """E20 over HTTP."""
    with running(tmp_path, settings_of(vcenter)) as host:
        event = request("create_machine")
        first, second = host.send(event), host.send(event)
        vcenter.control.reset_calls()
        third = host.call(event, Mode.STRUCTURED)
        assert first.content == second.content
        assert third == result_of(first)
        assert vcenter.control.calls().total() == 0
        assert sum("worker-1" in path for path in vms(vcenter)) == 1


def test_an_id_used_for_other_content_or_by_another_source_is_refused(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    """E23: the second hears no result; over HTTP it is told so."""
    with running(tmp_path, settings_of(vcenter)) as host:
        first = request("create_machine", id="one")
        host.call(first)
        for other in (
            request("create_machine", "worker-2", id="one"),
            request("create_machine", id="one", source="/b"),
        ):
            refused = host.send(other)
            assert refused.status_code == 400
            assert refused.json()["error"]["code"] == "InvalidArgument"
        assert not any("worker-2" in path for path in vms(vcenter))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("target", ["get_machine_status", None])
def test_sessions_are_logged_out_at_the_end(
    vcenter: SimulatedVCenter, tmp_path: Path, target: str | None, number: int
) -> None:
    before = vcenter.control.sessions()
    with running(tmp_path, settings_of(vcenter), target) as host:
        host.call(request("get_machine_status"))
        assert vcenter.control.sessions() == before + 1
        host.tell(number)
        assert host.ended() == 0
    until(lambda: vcenter.control.sessions() == before)
