"""Running functions, telemetry and the catalogue."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.catalogue import CATALOGUE, implementation
from vsphere_functions.runtime.drive import Interrupted, drive
from vsphere_functions.steps import Step, Steps


@pytest.fixture(autouse=True)
def _configured() -> Iterator[None]:
    telemetry.configure()
    yield
    structlog.reset_defaults()


def steps(*names: str, end: Exception | None = None) -> Any:
    undone: list[str] = []

    def function(_request: object, _ctx: object) -> Steps[str]:
        try:
            for name in names:
                yield Step(name, f"at {name}", name)
        except CallError as error:
            undone.append(error.code)
            raise
        except GeneratorExit:
            undone.append("closed")
            raise
        if end:
            raise end
        return "done"

    return function, undone


def run(function: Any, took: Any = lambda _: None) -> Any:
    return drive(function, "request", "ctx", took)


def test_a_plain_function_answers_at_once() -> None:
    assert run(lambda request, ctx: (request, ctx)) == ("request", "ctx")


def test_each_step_is_told_and_the_result_comes_last() -> None:
    told: list[str] = []
    assert run(steps("a", "b")[0], lambda step: told.append(step.phase)) == "done"
    assert told == ["a", "b"]
    assert run(steps()[0]) == "done"


def test_a_failure_leaves_with_the_last_steps_state_unless_it_has_its_own() -> None:
    for error, state in (
        (CallError(Code.ABORTED, "x"), "at b"),
        (CallError(Code.ABORTED, "x", last_known_state="own"), "own"),
    ):
        with pytest.raises(CallError) as found:
            run(steps("a", "b", end=error)[0])
        assert found.value.last_known_state == state


def test_a_refused_step_is_raised_inside_so_that_it_can_be_undone() -> None:
    def took(step: Step) -> None:
        if step.phase == "b":
            raise CallError(Code.CANCELED, "stop")

    function, undone = steps("a", "b", "c")
    with pytest.raises(CallError) as found:
        run(function, took)
    assert undone == ["Canceled"]
    assert (found.value.code, found.value.last_known_state) == (Code.CANCELED, "at b")


def test_an_interruption_closes_the_function_as_it_stands() -> None:
    def took(_step: Step) -> None:
        raise Interrupted

    function, undone = steps("a")
    with pytest.raises(Interrupted):
        run(function, took)
    assert undone == ["closed"]


def test_an_unexpected_error_becomes_internal_and_its_text_is_seen_nowhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        telemetry.about(request="req-1", function="create_machine", vcenter="default"),
        pytest.raises(CallError) as found,
    ):
        run(steps("a", end=KeyError("hunter2"))[0])
    assert (found.value.code, found.value.last_known_state) == (Code.INTERNAL, "at a")
    assert "hunter2" not in found.value.message
    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert said["exception"] == "KeyError"
    assert said["request"] == "req-1"
    assert "in function" in said["frames"][-1]
    assert "hunter2" not in line


def test_an_exception_can_be_given_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.log().warning("odd", exc_info=ValueError("hunter2"))
    said = json.loads(capsys.readouterr().err)
    assert (said["exception"], said["frames"]) == ("ValueError", [])


def test_a_function_of_the_contract_without_a_file_is_unimplemented() -> None:
    assert implementation(CATALOGUE, "get_volume_ids") is CATALOGUE["get_volume_ids"]
    with pytest.raises(CallError) as found:
        implementation({}, "resize_volume")
    assert found.value.code is Code.UNIMPLEMENTED
