"""The requests of all functions: what is taken, what is refused, and how that is said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import SecretStr, ValidationError

from events.requests import FULL, LOGIN, MINIMAL, MORE, OWNED, SPEC, UUID
from support.described import SCHEMAS
from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import (
    CreateMachineRequest,
    DeleteMachineRequest,
    GetMachineStatusRequest,
    Secrets,
    ShutDownMachineRequest,
    ValidateMachineRequest,
)
from vsphere_events.model import Model, violations
from vsphere_events.orphan import OrphanMachine
from vsphere_events.request import FindOrphansRequest


def _refusal(model: type[Model], data: object) -> CallError:
    with pytest.raises(CallError) as caught:
        model.parse(data)
    return caught.value


def _fields(model: type[Model], data: object) -> list[str | None]:
    error = _refusal(model, data)
    assert error.code is Code.INVALID_ARGUMENT
    return [detail.field for detail in error.details]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_least_and_a_rich_request_are_taken_by_model_and_schema(name: str) -> None:
    schema = SCHEMAS[f"{name}.request.v1.json"]
    validator = Draft202012Validator(schema["properties"]["data"] | {"$defs": schema["$defs"]})
    for data in (MINIMAL[name], MINIMAL[name] | MORE[name]):
        validator.validate(data)
        assert isinstance(FUNCTIONS[name].request.parse(data), FUNCTIONS[name].request)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_field_is_refused_by_its_place_and_python_spellings_are_unknown(name: str) -> None:
    data = MINIMAL[name] | {"hunter2": 1, "secret_ref": "lab"}
    said = _refusal(FUNCTIONS[name].request, data).details[-2:]
    count = len(data)
    assert [one.field for one in said] == [None, None]
    assert said[0].reason == f"has an unknown field, number {count - 1} of {count}"
    hint = "; is secretRef meant?" if "secret_ref" in FUNCTIONS[name].request.model_fields else ""
    assert said[1].reason == f"has an unknown field, number {count} of {count}{hint}"


@pytest.mark.parametrize("key", ["hunter2\x1b[31m", "hunter2\n", "hunter2" * 10, "\u202ehunter2"])
def test_a_key_of_a_map_is_shown_only_when_it_can_do_nothing_to_a_terminal(key: str) -> None:
    data = MINIMAL["create_machine"] | {"providerSpec": SPEC | {"extraConfig": {key: 1}}}
    assert set(_fields(CreateMachineRequest, data)) == {"providerSpec.extraConfig.(key)"}


@pytest.mark.parametrize(
    "data",
    [
        {"machineName": "w", "providerSpec": {"tags": {f" {number}": 1 for number in range(60_000)}}},
        {"machineName": "w", "providerSpec": {"tags": OWNED["tags"], "sshKeys": [1] * 300_000}},
        dict.fromkeys(map(str, range(60_000))),
    ],
)
def test_a_megabyte_of_mistakes_is_told_in_few_words(data: object) -> None:
    assert len(_refusal(GetMachineStatusRequest, data).details) < 5


@pytest.mark.parametrize("name", [name for name, data in MINIMAL.items() if data])
def test_every_missing_field_is_named_at_once(name: str) -> None:
    error = _refusal(FUNCTIONS[name].request, {})
    required = {field.alias for field in FUNCTIONS[name].request.model_fields.values() if field.is_required()}
    assert required <= {detail.field for detail in error.details}
    assert f"{len(error.details)} problem" in error.message


@pytest.mark.parametrize("data", [None, [], "x", 7])
def test_data_that_are_no_object_are_one_violation(data: object) -> None:
    assert _refusal(CreateMachineRequest, data).details == (Detail("should be an object"),)


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(), lambda x: st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_taken_or_refused(data: object) -> None:
    for name, function in FUNCTIONS.items():
        for given_data in (data, MINIMAL[name] | {"providerSpec": data, "secrets": data, "id": data}):
            try:
                function.request.parse(given_data)
            except CallError:
                continue


# Machines


def test_all_violations_come_at_once_with_their_paths() -> None:
    spec = FULL | {"numCpus": "2", "bogus": 1, "tags": {}, "sshKeys": ["k"], "extraConfig": {"a": 1}}
    del spec["network"], spec["datastore"]
    data = {
        "machineName": "x" * 81,
        "providerSpec": spec,
        "secrets": {"vsphereHost": "h"},
        "lastKnownState": 7,
    }
    assert set(_fields(CreateMachineRequest, data)) == {
        "machineName",
        "providerSpec.numCpus",
        "providerSpec",  # the unknown field
        "providerSpec.tags",
        "providerSpec.sshKeys.0",
        "providerSpec.extraConfig.a",
        "providerSpec.network",
        "providerSpec.datastore",
        "secrets.vsphereUsername",
        "secrets.vspherePassword",
        "lastKnownState",
    }


@pytest.mark.parametrize("name", ["a", "x" * 80, "ä" * 80, "VM Köln €", "[odd"])
def test_a_machine_name_of_80_characters_with_any_printable_ones_is_taken(name: str) -> None:
    """M12."""
    assert CreateMachineRequest.parse({"machineName": name, "providerSpec": SPEC}).machine_name == name


@pytest.mark.parametrize("name", ["nc/3", "../evil", "nc%2f5", "nc\\6", "%"])
def test_a_name_that_vsphere_escapes_is_looked_up_but_not_made(name: str) -> None:
    """M11: the clone of such a VM fails at its folder on the datastore, after folders were made for it."""
    for making in ("create_machine", "initialize_machine"):
        data = MINIMAL[making] | {"machineName": name}
        assert _fields(FUNCTIONS[making].request, data) == ["machineName"]
    (refused,) = ValidateMachineRequest.parse({"machineName": name, "providerSpec": SPEC}).violations()
    assert refused.field == "machineName"
    assert "letters, digits, dashes and dots" in refused.reason
    for finding in ("delete_machine", "get_machine_status", "shut_down_machine", "attach_volume"):
        request = FUNCTIONS[finding].request.parse(MINIMAL[finding] | {"machineName": name})
        assert request.wire()["machineName"] == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "x" * 81, "a\n", " a", "a\u2003", "a\x00b", "a\x7fb", "a\uffffb", ".", "..", None, 7, True),
        *("a\x1b[2Jb", "a\u202eb", "a\u2066b", "a\u2028b", "a\ufeffb", "a\x85b"),
    ],
)
def test_another_machine_name_is_refused(name: object) -> None:
    """M12: before any call."""
    assert _fields(CreateMachineRequest, MINIMAL["create_machine"] | {"machineName": name}) == ["machineName"]


def test_status_wants_a_name_or_a_provider_id() -> None:
    assert _fields(GetMachineStatusRequest, {"providerSpec": OWNED}) == ["machineName"]
    found = GetMachineStatusRequest.parse({"providerSpec": OWNED, "providerID": f"vsphere://r/{UUID}"})
    assert found.provider_id
    assert found.provider_id.uuid == UUID


def test_a_last_known_state_is_any_text_up_to_64_kib() -> None:
    """M03: the models' part."""
    for state in ("", "not json", "\x00\u2028", "x" * 65536):
        request = CreateMachineRequest.parse(MINIMAL["create_machine"] | {"lastKnownState": state})
        assert request.last_known_state == state
    too_long = MINIMAL["create_machine"] | {"lastKnownState": "x" * 65537}
    assert _fields(CreateMachineRequest, too_long) == ["lastKnownState"]


def test_shut_down_has_three_modes_and_a_bounded_time() -> None:
    assert ShutDownMachineRequest.parse(MINIMAL["shut_down_machine"]).mode == "trySoft"
    bad = MINIMAL["shut_down_machine"] | {"mode": "now", "timeoutSeconds": 0}
    assert _fields(ShutDownMachineRequest, bad) == ["mode", "timeoutSeconds"]


def test_validate_machine_takes_a_wrong_spec_and_lists_what_create_would_refuse() -> None:
    wrong = ValidateMachineRequest.parse({"machineName": "", "providerSpec": {"bogus": 1, "sshKeys": ["k"]}})
    fields = {detail.field for detail in wrong.violations()}
    assert fields >= {
        "machineName",
        "providerSpec",  # the unknown field
        "providerSpec.sshKeys.0",
        "providerSpec.templateVM",
    }
    assert ValidateMachineRequest.parse({"machineName": "w1", "providerSpec": SPEC}).violations() == ()


def test_an_orphan_sweep_names_machines() -> None:
    bad = MINIMAL["find_orphans"] | {
        "machines": [{"machineName": "a"}, {"providerID": "x"}],
        "minAgeSeconds": -1,
    }
    assert _fields(FindOrphansRequest, bad) == [
        "machines.1.machineName",
        "machines.1.providerID",
        "minAgeSeconds",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("vm-1", "machine/vm-1/x", "machine/vm-1//w1", "volume/a/b/", "disk/a/b/c", "", 7),
        *("machine/vm-1\0/u/w1", "machine/vm \u00fc/u/w1", "machine/vm-1\ud800/u/w1", "volume/a/b\n/c"),
        *(
            "machine/vm-1/xx/foo",
            "volume/a/b/c",
            f"machine/group-1/{UUID}/w1",
            f"machine/vm-1/{UUID.upper()}/w1",
        ),
        f"volume/a/{'b' * 1025}/0123456789ab",
    ],
)
def test_a_sweep_deletes_by_ids_that_an_answer_gave_and_no_more_than_a_hundred(text: object) -> None:
    bad = MINIMAL["find_orphans"] | {"delete": [text]}
    assert _fields(FindOrphansRequest, bad) == ["delete.0"]
    ids = [f"machine/vm-{number}/{UUID}/with/a/slash" for number in range(101)]
    assert _fields(FindOrphansRequest, MINIMAL["find_orphans"] | {"delete": ids}) == ["delete"]
    request = FindOrphansRequest.parse(MINIMAL["find_orphans"] | {"delete": ids[:100]})
    assert [str(one) for one in request.delete] == ids[:100]
    assert request.wire()["delete"] == ids[:100]
    assert request.delete[0] == OrphanMachine("vm-0", UUID, "with/a/slash")


# Secrets


@pytest.mark.parametrize("part", LOGIN)
def test_host_user_and_password_go_together(part: str) -> None:
    assert Secrets.parse(LOGIN).vsphere_host == SecretStr("vc.example")
    missing = {name: value for name, value in LOGIN.items() if name != part}
    assert _fields(Secrets, missing) == [part]
    assert len(_fields(Secrets, {part: "x"})) == 2
    assert _fields(Secrets, LOGIN | {part: ""}) == [part]


def test_user_data_alone_are_allowed_and_insecure_alone_is_not() -> None:
    request = CreateMachineRequest.parse(
        MINIMAL["create_machine"] | {"secrets": {"userData": "#cloud-config"}}
    )
    assert request.user_data == "#cloud-config"
    assert CreateMachineRequest.parse(MINIMAL["create_machine"]).user_data is None
    assert len(_fields(Secrets, {"vsphereInsecureSSL": "true"})) == 3


@pytest.mark.parametrize(("text", "insecure"), [("true", True), ("TRUE", True), ("1", True), ("yes", False)])
def test_insecure_is_true_or_1(text: str, insecure: bool) -> None:
    assert Secrets.parse(LOGIN | {"vsphereInsecureSSL": text}).insecure is insecure
    assert not Secrets.parse(LOGIN).insecure


def test_no_secret_and_no_input_is_shown() -> None:
    """M57: the models' part."""
    request = CreateMachineRequest.parse(
        MINIMAL["create_machine"] | {"secrets": LOGIN | {"userData": "hunter2"}}
    )
    assert "hunter2" not in repr(request) + str(request) + json.dumps(request.wire())
    wrong = {"vspherePassword": ["hunter2"], "userData": {"hunter3": "hunter2"}}
    error = _refusal(
        CreateMachineRequest, {"machineName": ["hunter2"], "secrets": wrong, "providerSpec": "hunter2"}
    )
    assert "hunter2" not in str(error) + repr(error.details)
    with pytest.raises(ValidationError) as caught:
        CreateMachineRequest.model_validate({"machineName": ["hunter2"], "secrets": wrong})
    assert "hunter2" not in str(caught.value)
    assert "machineName" in {detail.field for detail in violations(caught.value)}


def test_m12_a_name_is_measured_as_vsphere_stores_it() -> None:
    """`%`, `/` and a backslash take three characters each there."""
    data = {"providerSpec": OWNED}
    DeleteMachineRequest.parse(data | {"machineName": "%" * 26 + "xx"})
    with pytest.raises(CallError) as refused:
        DeleteMachineRequest.parse(data | {"machineName": "%" * 26 + "xxx"})
    assert [detail.field for detail in refused.value.details] == ["machineName"]
