"""Who may look for a slot, as far as one process knows, and who waits how long."""

import pytest

from support.functions import SPEC, address, request, settings
from vsphere_functions.runtime.dispatch import Call, dispatch
from vsphere_functions.runtime.gate import Cap, Gate, caps_of
from vsphere_functions.runtime.settings import Limits

LIMITS = Limits()
TWO = Cap("template", 2)
FOUR = Cap("vcenter", 4)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gate(clock: Clock) -> Gate:
    return Gate(clock)


def call(function: str = "create_machine", **spec: str | None) -> Call:
    asked = {key: value for key, value in (SPEC | spec).items() if value is not None}
    event = request(function, data={"machineName": "m", "providerSpec": asked})
    return dispatch(address(event, function), settings())


def keys(one: Call) -> list[str]:
    return [cap.key for cap in caps_of(one, LIMITS)]


def test_a_create_counts_for_its_template_its_datastore_and_its_vcenter() -> None:
    one, other = keys(call()), keys(call(templateVM="other", datastore="other"))
    assert [cap.slots for cap in caps_of(call(), LIMITS)] == [5, 8, 16]
    assert len(set(one)) == 3
    assert set(one) & set(other) == {one[2]}
    assert keys(call(datacenter="DC1"))[2] == one[2]
    assert not set(keys(call(datacenter="DC1"))[:2]) & set(one)


def test_a_datastore_cluster_counts_for_itself() -> None:
    pod = keys(call(datastore=None, datastoreCluster="ds"))
    assert pod[1] not in keys(call())
    assert pod == keys(call(datastore="in it", datastoreCluster="ds"))


def test_what_makes_no_machine_is_not_counted() -> None:
    assert caps_of(call("delete_machine"), LIMITS) == ()


def test_nothing_is_in_the_way_where_nobody_waits(gate: Gate) -> None:
    assert not gate.crowded([TWO, FOUR])
    assert gate.closed([TWO, FOUR], 7) is None
    assert gate.ahead(TWO, 7) == 0


def test_a_cap_that_was_full_is_taken_to_be_full_for_a_moment_or_until_a_slot_comes_free_here(
    gate: Gate, clock: Clock
) -> None:
    gate.found_full(TWO, LIMITS)
    assert gate.crowded([TWO, FOUR])
    assert not gate.crowded([FOUR])
    assert gate.closed([FOUR, TWO], None) == TWO
    clock.now += LIMITS.retry_seconds / 8
    assert gate.closed([FOUR, TWO], None) is None
    gate.found_full(TWO, LIMITS)
    gate.opened([TWO, FOUR], {"slot.template.1": 7, "slot.vcenter.3": 8})
    assert gate.closed([TWO], 7) is None
    assert not gate.crowded([TWO, FOUR]), "and it is forgotten"


def test_as_many_of_the_oldest_as_there_are_slots_may_look(gate: Gate) -> None:
    for sequence in (5, 3, 9, 7):
        gate.wait(TWO, sequence, 1)
    assert [gate.closed([TWO], sequence) is None for sequence in (3, 5, 7, 9)] == [True, True, False, False]
    assert gate.closed([TWO], 4) is None
    assert gate.closed([TWO], 6) == TWO
    assert [gate.ahead(TWO, sequence) for sequence in (3, 7, 100)] == [0, 2, 4]
    gate.entered([TWO, FOUR], 3)
    assert gate.closed([TWO], 7) is None


def test_one_that_does_not_come_back_is_in_nobodys_way(gate: Gate, clock: Clock) -> None:
    """Another worker has it: at most a second after its delay the next in line goes on."""
    gate.wait(TWO, 1, 1)
    gate.wait(TWO, 2, 5)
    gate.wait(TWO, 3, 5)
    assert gate.closed([TWO], 3) == TWO
    clock.now += 2.01
    assert gate.closed([TWO], 3) is None


def test_slots_that_are_known_to_be_free_are_given_out_once_and_not_for_long(
    gate: Gate, clock: Clock
) -> None:
    both, freed = [TWO, FOUR], {"slot.template.1": 7, "slot.vcenter.9": 8}
    gate.opened(both, freed)
    assert gate.grab(both) == {}, "what is free elsewhere is not known"
    gate.found_free(TWO, {"slot.template.0": 3})
    assert gate.grab(both) == {}
    gate.found_free(FOUR, {"slot.vcenter.1": 4, "slot.vcenter.2": 5})
    gate.opened(both, freed)
    assert gate.grab(both) == {"slot.template.1": 7, "slot.vcenter.2": 5}, (
        "the last first, none beyond the cap"
    )
    assert gate.grab(both) == {"slot.template.0": 3, "slot.vcenter.1": 4}
    assert gate.grab(both) == {}
    gate.opened(both, freed)
    gate.found_full(TWO, LIMITS)
    assert gate.grab([TWO]) == {}
    gate.found_free(FOUR, {"slot.vcenter.1": 4})
    clock.now += 5
    assert gate.grab([FOUR]) == {}
    gate.found_free(FOUR, {"slot.vcenter.1": 4})
    gate.forget([FOUR])
    assert gate.grab([FOUR]) == {}


def test_caps_of_which_nothing_is_known_any_more_are_dropped(gate: Gate, clock: Clock) -> None:
    """Each request can name another template."""
    gate.wait(TWO, 1, 10**9)
    for n in range(5000):
        clock.now += 1
        gate.found_free(Cap(f"free {n}", 2), {f"slot.{n}.0": 1})
        gate.found_full(Cap(f"full {n}", 2), LIMITS)
    assert len(gate._free) + len(gate._lines) <= 1001
    assert gate.crowded([TWO]), "who waits is not forgotten"
