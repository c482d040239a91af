"""Identity: known before the clone, the same in every process, and no copy's."""

from hypothesis import given
from hypothesis import strategies as st

from support.machines import creation
from vsphere_functions.vsphere.identity import Mark, instance_uuid
from vsphere_functions.vsphere.wanted import Wanted, spec_digest

MARK = Mark("a/node", "w", "i", "u", "n", "d", "eu-1", "DC0/vm")


def test_the_identity_of_a_machine_is_fixed_for_ever() -> None:
    """With another value here, no machine that stands anywhere would be found again."""
    assert instance_uuid("shoot--demo--a/node", "worker-1") == "36b144ba-4b90-5640-bd52-4036c4c3bf82"


@given(st.tuples(st.text(), st.text()), st.tuples(st.text(), st.text()))
def test_no_two_machines_share_an_identity(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (instance_uuid(*one) == instance_uuid(*other)) == (one == other)


def test_a_mark_is_read_back_as_it_was() -> None:
    assert Mark.parse(str(MARK)) == MARK


@given(
    st.none() | st.text() | st.integers() | st.sampled_from(['{"owner": 1}', "[]", "[" * 9000, '{"x": "y"}'])
)
def test_whatever_is_no_mark_is_none(told: object) -> None:
    assert Mark.parse(told) is None


def test_a_vm_with_neither_uuid_of_the_mark_is_a_copy() -> None:
    assert MARK.is_of("u", "other")
    assert MARK.is_of("n", None)
    assert MARK.is_of(None, "i")
    assert not MARK.is_of("other", "other")
    assert not MARK.is_of(None, None)


def test_each_incarnation_has_a_bios_uuid_of_its_own() -> None:
    first, second = Wanted.of(creation()), Wanted.of(creation())
    assert first.instance_uuid == second.instance_uuid
    assert first.incarnation != second.incarnation


def test_the_digest_is_of_what_is_asked_for() -> None:
    asked = spec_digest(creation().provider_spec)
    assert asked == spec_digest(creation("worker-2", waitForIP=False, extraConfig={}).provider_spec)
    assert asked != spec_digest(creation(memory=8192).provider_spec)
