"""Codes and the rendered form of an error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.outcome import Failure


def _decode(text: str) -> tuple[str, str] | None:
    """Decode as Gardener does: the top-level bracket groups, exactly two, are the code and the message."""
    groups, opened, start = [], 0, 0
    for at, char in enumerate(text):
        if char == "[":
            start = at + 1 if opened == 0 else start
            opened += 1
        elif char == "]":
            opened -= 1
            if opened == 0:
                groups.append(text[start:at])
    return (groups[0], groups[1]) if len(groups) == 2 and opened == 0 else None


@given(st.sampled_from(Code), st.text() | st.text("[]() a"))
def test_any_error_is_decoded_to_its_code_and_message(code: Code, message: str) -> None:
    """M16."""
    decoded = _decode(str(CallError(code, message)))
    assert decoded is not None
    assert decoded[0] == code
    assert decoded[1].translate(str.maketrans("[]", "()")) == message.translate(str.maketrans("[]", "()"))


def test_balanced_brackets_are_kept_and_the_message_itself_is_never_changed() -> None:
    """M16."""
    error = CallError(Code.UNAVAILABLE, "cannot read [we ird (1)] a/a.vmdk: ] or [")
    assert str(error) == (
        "machine codes error: code = [Unavailable] message = [cannot read [we ird (1)] a/a.vmdk: ) or (]"
    )
    assert error.message.endswith("] or [")


def test_the_rendered_form_says_what_the_first_details_say_and_the_message_does_not() -> None:
    details = [Detail(f"no network [n{at}", f"providerSpec.networks.{at}.name", ("a",)) for at in range(5)]
    error = CallError(Code.INVALID_ARGUMENT, "5 problems", details=details)
    assert str(error) == (
        "machine codes error: code = [InvalidArgument] message = [5 problems: "
        "providerSpec.networks.0.name: no network (n0; providerSpec.networks.1.name: no network (n1; "
        "providerSpec.networks.2.name: no network (n2; and 2 more]"
    )
    assert error.message == "5 problems"
    said = CallError(
        Code.PERMISSION_DENIED, "privilege A is missing", details=[Detail("privilege A is missing")]
    )
    assert str(said).endswith("message = [privilege A is missing]")
    assert str(CallError(Code.INVALID_ARGUMENT, "m", details=[Detail("r")])).endswith("message = [m: r]")


def test_the_codes_are_numbered_as_gardener_numbers_them() -> None:
    numbers = {code.number: code.value for code in Code}
    assert list(numbers) == list(range(18))
    assert (numbers[0], numbers[5], numbers[11], numbers[17]) == (
        "OK",
        "NotFound",
        "OutOfRange",
        "Uninitialized",
    )


@pytest.mark.parametrize("code", Code)
def test_only_the_codes_that_pass_by_themselves_are_retryable(code: Code) -> None:
    soon = {"Unknown", "DeadlineExceeded", "Aborted", "Unavailable", "ResourceExhausted"}
    assert code.retryable is (code in soon)


def test_a_failure_says_what_the_error_says_and_the_node_only_when_uninitialized() -> None:
    half = Failure.of(
        CallError(
            Code.UNINITIALIZED, "half built", provider_id="vsphere://x", node_name="n", last_known_state="{}"
        )
    )
    assert half.wire() == {
        "providerID": "vsphere://x",
        "nodeName": "n",
        "lastKnownState": "{}",
        "error": {"code": "Uninitialized", "message": "half built", "retryable": False, "details": []},
    }
    detail = Detail("no network", field="providerSpec.network", candidates=("a", "b"))
    whole = Failure.of(
        CallError(Code.ABORTED, "m", node_name="n", provider_id="", details=[detail, Detail("r")])
    )
    assert whole.wire() == {
        "providerID": None,
        "lastKnownState": None,
        "error": {
            "code": "Aborted",
            "message": "m",
            "retryable": True,
            "details": [
                {"field": "providerSpec.network", "reason": "no network", "candidates": ["a", "b"]},
                {"reason": "r"},
            ],
        },
    }
