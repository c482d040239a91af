"""LastKnownState: read back whole, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_functions.vsphere.state import State

VCENTER, INSTANCE = "dbed6e0c-bd88-4ef6-b594-21283e1c677f", "2687523a-1041-5340-9194-ea0f7f1bdf3b"
TEXT = st.text(min_size=1)
OPTIONAL = st.none() | TEXT
OBJECT_ID = st.none() | st.from_regex(r"[a-zA-Z]+-[0-9a-zA-Z.:-]+", fullmatch=True)
ODD_IDS = [{"task": text} for text in ("", "\0", "\ud800", "task 1", "tâche-1", "t" * 256)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(TEXT, OBJECT_ID, OPTIONAL, OBJECT_ID, OPTIONAL)
def test_a_state_is_read_back_as_it_was(
    phase: str, vm: str | None, uuid: str | None, task: str | None, detached: str | None
) -> None:
    state = State(phase, VCENTER, INSTANCE, vm, uuid, task, detached)
    assert State.parse(str(state), vcenter=VCENTER, instance_uuid=INSTANCE) == state


@given(st.text() | JSON.map(json.dumps))
def test_whatever_else_is_told_is_a_fresh_state(told: str) -> None:
    assert State.of(told, VCENTER, INSTANCE) == State("begin", VCENTER, INSTANCE)


def test_a_state_of_another_vcenter_or_machine_is_none() -> None:
    told = str(State("clone", VCENTER, INSTANCE, task="task-1"))
    assert State.parse(told, vcenter="another", instance_uuid=INSTANCE) is None
    assert State.parse(told, vcenter=VCENTER, instance_uuid="another") is None


@pytest.mark.parametrize(
    "told", [{"v": 2}, {"v": None}, {"phase": None}, {"task": 7}, {"vm": ["vm-1"]}, {"uuid": ""}, *ODD_IDS]
)
def test_a_state_of_another_version_or_shape_is_none(told: dict[str, object]) -> None:
    """M03."""
    good = json.loads(str(State("clone", VCENTER, INSTANCE, task="task-1")))
    assert State.parse(json.dumps(good), vcenter=VCENTER, instance_uuid=INSTANCE)
    assert State.parse(json.dumps(good | told), vcenter=VCENTER, instance_uuid=INSTANCE) is None


def test_a_task_belongs_to_its_phase_only() -> None:
    state = State("clone", VCENTER, INSTANCE, task="task-1").at("ready", vm="vm-1", uuid="u")
    assert (state.task, state.vm, state.at("later").vm) == (None, "vm-1", "vm-1")
