"""Results and progress: ids, causes, subjects, data."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from events.event_strategies import events
from events.requests import LINK, LOGIN, MINIMAL, SPEC, UUID
from support.described import SCHEMAS
from vsphere_events import results
from vsphere_events.cloud_event import NO_DATA, CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import from_json, to_json
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import (
    Address,
    CreateMachineResult,
    DeleteMachineResult,
    GetMachineStatusResult,
    ListMachinesResult,
    Phase,
    PowerState,
)
from vsphere_events.outcome import Progress
from vsphere_events.volume import CreateVolumeResult, DestroyVolumeResult, Volume

NOW = datetime(2026, 11, 29, 13, 0, 41, 999999, timezone(timedelta(hours=1)))
PROVIDER_ID = f"vsphere://eu-1/{UUID}"
CREATED = CreateMachineResult(
    provider_id=PROVIDER_ID, node_name="w1", addresses=(Address(type="InternalIP", address="10.0.0.1"),)
)


def _request(function: str, data: Any = NO_DATA, **attributes: Any) -> CloudEvent:
    event = CloudEvent(
        id="req-1",
        source="/producers/demo",
        type=f"io.vspherefunctions.{function}.request.v1",
        data=MINIMAL[function] if data is NO_DATA else data,
    )
    return dataclasses.replace(event, **attributes)


def _failed(function: str, data: Any = NO_DATA, **attributes: Any) -> CloudEvent:
    error = CallError(Code.ABORTED, "busy")
    return results.failed(function, _request(function, data, **attributes), "default", error, at=NOW)


def test_a_success_says_whose_it_is_and_what_caused_it() -> None:
    event = results.succeeded("create_machine", _request("create_machine"), "lab", CREATED, at=NOW)
    assert json.loads(to_json(event)) == {
        "specversion": "1.0",
        "id": "req-1.result",
        "source": "/vsphere-functions/lab",
        "type": "io.vspherefunctions.create_machine.succeeded.v1",
        "subject": "w1",
        "time": "2026-11-29T12:00:41Z",
        "datacontenttype": "application/json",
        "correlationid": "req-1",
        "causationid": "req-1",
        "causationsource": "/producers/demo",
        "data": {
            "providerID": PROVIDER_ID,
            "nodeName": "w1",
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "lastKnownState": None,
        },
    }


def test_a_failure_carries_what_a_caller_resumes_from() -> None:
    error = CallError(Code.DEADLINE_EXCEEDED, "later", provider_id=PROVIDER_ID, last_known_state="{}")
    event = results.failed("create_machine", _request("create_machine"), "lab", error, at=NOW, generation=2)
    assert event.id == "req-1.result.2"
    assert event.type == "io.vspherefunctions.create_machine.failed.v1"
    assert event.data == {
        "providerID": PROVIDER_ID,
        "lastKnownState": "{}",
        "error": {"code": "DeadlineExceeded", "message": "later", "retryable": True, "details": []},
    }


def test_progress_is_numbered_and_leaves_out_what_is_absent() -> None:
    said = Progress(step="clone", percent=45, message="cloning")
    event = results.progress("create_machine", _request("create_machine"), "lab", said, at=NOW, number=3)
    assert event.id == "req-1.progress.3"
    assert event.type == "io.vspherefunctions.create_machine.progress.v1"
    assert event.data == {"step": "clone", "percent": 45, "message": "cloning"}


def test_a_long_id_is_the_cause_in_full_and_its_token_names_the_result() -> None:
    event = _failed("create_machine", id="a.b c")
    assert event.id == results.result_id("a.b c") != "a.b c.result"
    assert event.extensions["causationid"] == "a.b c"


def test_the_trace_is_passed_on_and_nothing_else() -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
    event = _failed("create_machine", extensions=trace | {"vcenter": "default", "expirytime": "x"})
    assert event.extensions == trace | {
        "correlationid": "req-1",
        "causationid": "req-1",
        "causationsource": "/producers/demo",
    }


FAILED = Draft202012Validator(SCHEMAS["failed.v1.json"])
OWNER = "shoot--a/node"


@pytest.mark.parametrize(
    ("function", "data", "subject"),
    [
        ("create_machine", NO_DATA, "w1"),
        ("list_machines", NO_DATA, OWNER),
        ("find_orphans", NO_DATA, OWNER),
        ("get_volume", NO_DATA, "default/data-1"),
        ("destroy_volume", NO_DATA, "fast/data-1"),
        ("attach_volume", NO_DATA, "w1"),
        ("get_volume", {"id": "a", "store": "vsphere-volume://default/fast"}, "fast/a"),
        ("copy_volume", NO_DATA, "default/data-2"),
        ("copy_volume", {"selfLink": LINK, "toId": "data-2"}, "fast/data-2"),
        ("copy_volume", {"id": "a", "toId": "b", "toStore": "slow"}, "slow/b"),
        ("cancel_request", NO_DATA, "said"),
        ("list_volumes", NO_DATA, "said"),
        ("get_machine_status", {"providerID": PROVIDER_ID, "providerSpec": {"tags": {}}}, "said"),
        ("get_machine_status", {"providerSpec": {"tags": {"a": 1}}}, "said"),
        ("create_machine", {"machineName": "a\nb", "providerSpec": 7}, "said"),
        ("create_machine", {"machineName": ["x"]}, "said"),
        ("get_volume", {"id": 7, "selfLink": ["x"], "store": {}}, "said"),
        ("create_machine", [1], "said"),
    ],
)
def test_the_subject_is_the_machine_the_volume_or_the_owner(function: str, data: Any, subject: str) -> None:
    assert _failed(function, data, subject="said").subject == subject


def test_a_result_can_name_what_the_request_did_not() -> None:
    status = GetMachineStatusResult(
        provider_id=PROVIDER_ID, node_name="w9", power_state=PowerState.ON, phase=Phase.RUNNING
    )
    request = _request("get_machine_status", {"providerID": PROVIDER_ID})
    assert results.succeeded("get_machine_status", request, "default", status, at=NOW).subject == "w9"
    volume = Volume(
        tag="anon", datastore="d", vmdk_path="[d] x", self_link="vsphere-volume://default/fast/anon"
    )
    made = CreateVolumeResult(volume=volume)
    event = results.succeeded("create_volume", _request("create_volume"), "default", made, at=NOW)
    assert event.subject == "fast/anon"
    assert _failed("create_volume").subject is None


def test_what_is_absent_is_null_for_three_names_and_left_out_otherwise() -> None:
    assert DeleteMachineResult().wire() == {"providerID": None, "detachedVolumes": [], "lastKnownState": None}
    assert ListMachinesResult(machine_list={}).wire()["nextPageToken"] is None
    assert DestroyVolumeResult().wire() == {}
    volume = Volume(tag="a", datastore="d", vmdk_path="[d] a", self_link="vsphere-volume://default/default/a")
    assert volume.wire().keys() == {
        "tag",
        "datastore",
        "vmdkPath",
        "info",
        "selfLink",
        "attachedTo",
        "state",
    }


@given(events(), st.sampled_from(sorted(FUNCTIONS)), st.text(st.characters(exclude_categories=["Cs"])))
def test_any_event_can_be_answered_and_the_answer_fits_its_schema(
    request: CloudEvent, function: str, message: str
) -> None:
    answer = results.failed(function, request, "default", CallError(Code.INTERNAL, message), at=NOW)
    assert from_json(to_json(answer)) == answer
    FAILED.validate(json.loads(to_json(answer)))


# The hash of an operation


def _hash(**changes: Any) -> str:
    data = {"machineName": "w1", "providerSpec": SPEC} | changes
    return results.request_hash("t", FUNCTIONS["create_machine"].request.parse(data))


def test_the_hash_does_not_know_secrets_order_and_spelt_out_defaults() -> None:
    assert _hash() == _hash(secrets=LOGIN) == _hash(secrets={"userData": "new token"})
    assert _hash() == _hash(providerSpec=dict(reversed(SPEC.items())) | {"force": False, "folder": ""})


def test_the_hash_knows_everything_else() -> None:
    request = FUNCTIONS["create_machine"].request.parse(MINIMAL["create_machine"])
    other_type = results.request_hash("u", request)
    hashes = {_hash(), _hash(machineName="w2"), _hash(providerSpec=SPEC | {"numCpus": 4}), other_type}
    assert len(hashes | {_hash(secretRef="lab"), _hash(lastKnownState="{}")}) == 6


def test_the_hash_stays_the_same_between_versions() -> None:
    cancel = FUNCTIONS["cancel_request"].request.parse({"source": "/p", "id": "1"})
    assert results.request_hash("t", cancel) == (
        "41037f53fdc08e2f6900ad69756b463db67c08f84e2ccecce73e4e36cb9a990f"
    )


def test_now_may_be_in_any_zone() -> None:
    assert NOW.astimezone(UTC).hour == 12
