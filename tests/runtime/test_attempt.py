"""A try of a request that changes something, over records in memory."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from support.functions import UUID, World, address, desk, request
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.operations import Foreign
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Ending, Finished


def make(one: Desk, event: CloudEvent, function: str = "create_machine", **delivery: Any) -> Ending:
    return asyncio.run(perform(one, address(event, function), Delivery(**delivery), lambda _: None))


def error_of(ending: Ending) -> dict[str, Any]:
    assert isinstance(ending, Finished)
    error: dict[str, Any] = ending.result.data["error"]
    return error


def test_a_create_ends_in_its_result_and_a_repeated_one_in_the_same_result() -> None:
    """E20: the stored result again, no second effect."""
    world, event = World(), request()
    with desk(world) as one:
        first, second = make(one, event, sequence=1), make(one, event, sequence=2)
    assert isinstance(first, Finished)
    assert isinstance(second, Finished)
    assert first.result.data["providerID"] == f"vsphere://eu-1/{UUID}"
    assert second.replayed
    assert second.result == first.result
    assert world.effects == ["create m-1"]


def test_another_source_with_the_same_token_hears_nothing() -> None:
    """E23."""
    world, event = World(), request(id="same")
    with desk(world) as one:
        make(one, event)
        assert isinstance(make(one, request(id="same", source="/producers/other")), Foreign)
        assert isinstance(make(one, request(id="same", name="other")), Foreign)
    assert world.effects == ["create m-1"]


def test_a_passing_failure_is_tried_again_with_the_recorded_state_and_then_given_up() -> None:
    world = World(failures=[CallError(Code.UNAVAILABLE, "away", last_known_state=f"s{n}") for n in range(3)])
    said: list[CloudEvent] = []
    with desk(world, attempts=3) as one:
        event = request()
        endings = [asyncio.run(perform(one, address(event), Delivery(), said.append)) for _ in range(3)]
    assert [type(ending) for ending in endings] == [Again, Again, Finished]
    assert error_of(endings[2])["code"] == "Unavailable"
    assert isinstance(endings[2], Finished)
    assert endings[2].dead is not None
    assert endings[2].dead.attempts == 3
    assert endings[2].result.data["lastKnownState"] == "s2"
    assert world.seen_states == [None, "s0", "s1"]
    assert [(one.data["attempt"], one.data["code"]) for one in said] == [
        (1, "Unavailable"),
        (2, "Unavailable"),
    ]


def test_an_expired_request_is_not_begun() -> None:
    world, past = World(), (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    with desk(world) as one:
        ending = make(one, request(extensions={"expirytime": past}))
    assert error_of(ending)["code"] == "DeadlineExceeded"
    assert not world.effects
