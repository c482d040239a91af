"""The fuzzers' targets, for as long as a test may take; `make fuzz` runs them for ten minutes."""

import pytest

from fuzz.seeds import SEEDS, mutants
from fuzz.targets import TARGETS, BrokenError, holds, refused
from vsphere_events import json_text
from vsphere_events.code import Code
from vsphere_events.error import CallError

SEED = 20261129
COUNT = 300


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_lets_nothing_out(name: str) -> None:
    for data in (b"", b"\0", *SEEDS[name], *mutants(SEED, SEEDS[name], COUNT)):
        try:
            TARGETS[name](data)
        except Exception as error:
            raise AssertionError(f"{name}, seed {SEED}: {data!r}") from error


def test_a_seed_gives_the_same_messages_again() -> None:
    once, again = (list(mutants(7, SEEDS["nats"], 50)) for _ in range(2))
    assert once == again
    assert len(set(once)) > 40


def test_a_refusal_that_is_none_is_found() -> None:
    def refuse() -> None:
        raise CallError(Code.INTERNAL, "x")

    with pytest.raises(BrokenError):
        refused(refuse)
    with pytest.raises(BrokenError):
        holds("x", true=False)
    assert refused(json_text.loads, b"{") is None
