"""A short storm, and what decides about a long one: `make chaos` runs it with hundreds of requests."""

import pytest

from chaos.compare import by_turns, differences
from chaos.fates import Fate, Op, contradictions, fate_of
from chaos.found import Found
from chaos.run import run
from chaos.schedule import WEIGHTS, draw
from vsphere_events.code import Code
from vsphere_functions.runtime.catalogue import CATALOGUE

REQUESTS = 30


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # connections are cut on purpose
def test_whatever_dies_every_request_has_one_effect_and_one_result(
    vcsim_binary: object, toxiproxy_binary: object
) -> None:
    assert vcsim_binary
    assert toxiproxy_binary
    verdict = run(draw(7, REQUESTS, kills=3))
    assert verdict.differences == []
    assert len(verdict.results) == REQUESTS
    assert verdict.kills >= 3


def test_a_request_without_a_result_and_what_is_left_in_the_streams_are_named() -> None:
    asked = draw(1, 1).requests
    lost = list(differences(asked, Found(waiting=1, leases=["a key"]), Found()))
    assert [one.partition(" ")[2] for one in lost[:1]] == [
        f"({asked[0].function} {asked[0].thing}) has no result"
    ]
    assert len(lost) == 3


def test_a_seed_says_all_of_a_schedule_and_another_one_another() -> None:
    assert draw(1, 200) == draw(1, 200)
    assert draw(1, 200).digest == draw(1, 200).digest
    assert draw(2, 200).digest != draw(1, 200).digest


def test_a_long_schedule_asks_for_every_function_and_kills_often() -> None:
    schedule = draw(3, 500)
    assert {one.function for one in schedule.requests} == WEIGHTS.keys()
    assert WEIGHTS.keys() <= CATALOGUE.keys()
    assert sum(blow.kind.startswith(("kill", "term")) for blow in schedule.blows) >= 30


OK, FAILED = Code.OK, Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("ops", "fate"),
    [
        ([], Fate(may_stand=False, may_be_gone=True)),
        ([Op(1, "create_machine", OK, "a")], Fate(may_stand=True, may_be_gone=False, identity="a")),
        (
            [Op(2, "delete_machine", OK), Op(1, "create_machine", OK, "a")],
            Fate(may_stand=False, may_be_gone=True),
        ),
        ([Op(1, "create_machine", FAILED)], Fate(may_stand=True, may_be_gone=True)),
        ([Op(1, "create_machine", Code.CANCELED, wished=True)], Fate(may_stand=False, may_be_gone=True)),
        ([Op(1, "create_machine", Code.CANCELED)], Fate(may_stand=True, may_be_gone=True)),
        (
            [Op(1, "create_machine", OK, "a"), Op(2, "delete_machine", FAILED)],
            Fate(may_stand=True, may_be_gone=True, identity="a"),
        ),
        (
            [Op(1, "create_volume", OK), Op(2, "destroy_volume", Code.FAILED_PRECONDITION)],
            Fate(may_stand=True, may_be_gone=False),
        ),
        (
            [Op(1, "create_volume", OK), Op(2, "destroy_volume", Code.CANCELED, wished=True)],
            Fate(may_stand=True, may_be_gone=True),
        ),
    ],
)  # fmt: skip - a table
def test_the_results_say_what_may_stand(ops: list[Op], fate: Fate) -> None:
    assert fate_of(ops) == fate


def test_results_that_cannot_all_be_true_are_named() -> None:
    made, gone = Op(1, "create_machine", OK, "a"), Op(2, "delete_machine", OK)
    assert contradictions([made, gone, Op(3, "create_machine", OK, "b")]) == []
    assert len(contradictions([made, gone, Op(3, "create_machine", OK, "a")])) == 1
    assert contradictions([Op(1, "create_machine", Code.CANCELED), gone]) == []
    assert len(contradictions([Op(3, "create_machine", Code.CANCELED), gone])) == 1


def test_of_two_tries_that_change_a_thing_by_turns_one_is_named() -> None:
    one, two = "a first\tkey\tCloneVM_Task", "b second\tkey,other\tDestroy_Task"
    assert list(by_turns([f"1\t{one}", f"2\t{one}", f"4\t{two}", f"3\t{two}"])) == []
    assert list(by_turns([f"1\t{one}", "2\tb second\tother\tDestroy_Task", f"3\t{one}"])) == []
    assert list(by_turns([f"1\t{one}", f"3\t{two}", f"2\t{one}"])) == []
    assert len(list(by_turns([f"1\t{one}", f"2\t{two}", f"3\t{one}"]))) == 1
