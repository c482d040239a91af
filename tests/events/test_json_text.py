"""JSON as strictly as events need it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.event_strategies import JSON_VALUES
from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.error import CallError


@given(JSON_VALUES)
def test_any_value_comes_back_and_has_one_canonical_text(value: Any) -> None:
    assert json_text.loads(json_text.dumps(value)) == value
    assert json_text.loads(json_text.canonical(value)) == value
    assert json_text.canonical(json_text.loads(json.dumps(value, indent=1))) == json_text.canonical(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"\xff", "UTF-8"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udc00":1}', "surrogate"),
        (b'{"a":{"b":1,"b":1}}', "twice"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "out of range"),
        (b"-1e999", "out of range"),
        (b"9" * 5000, "digits"),
        (b"[" * 65 + b"]" * 65, "deeply"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeply"),
        (b"[" * 200_000, "deeply"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"{} x", "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ("{}".encode("utf-16"), "UTF-8"),
    ],
)
def test_what_has_no_one_meaning_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(CallError) as caught:
        json_text.loads(text)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert reason in caught.value.message


def test_nesting_up_to_the_limit_is_taken() -> None:
    assert json_text.loads(b"[" * json_text.DEPTH + b"]" * json_text.DEPTH)


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_any_text_is_read_or_refused(text: bytes | str) -> None:
    try:
        value = json_text.loads(text)
    except CallError:
        return
    assert json_text.loads(json_text.dumps(value)) == value
