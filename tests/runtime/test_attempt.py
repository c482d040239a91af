"""A try of a request that changes something, over records in memory."""

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.functions import UUID, World, address, desk, performed, request
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineRequest
from vsphere_functions.context import Context
from vsphere_functions.runtime.catalogue import CATALOGUE
from vsphere_functions.runtime.operations import Foreign, Record
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Ending, Finished
from vsphere_functions.runtime.store import Bucket, Entry, MemoryStore, StoreError
from vsphere_functions.steps import Step, Steps


def ignore(_progress: CloudEvent) -> None:
    """Hear no progress."""


async def record_of(one: Desk, event: CloudEvent) -> Record:
    entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
    assert entry
    return Record.load(entry.value)


def make(one: Desk, event: CloudEvent, function: str = "create_machine", **delivery: Any) -> Ending:
    return asyncio.run(performed(one, address(event, function), Delivery(**delivery)))


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
        endings = [asyncio.run(performed(one, address(event), Delivery(), said.append)) for _ in range(3)]
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


def test_a_result_that_cannot_be_rendered_is_a_failure_that_says_so() -> None:
    world = World()
    with desk(world) as one:
        odd = replace(one, catalogue={"create_machine": lambda *_: object()})
        error = error_of(make(odd, request()))
    assert (error["code"], error["message"]) == ("Internal", "the result cannot be rendered")


def test_a_function_of_the_contract_that_is_not_built_says_so() -> None:
    """Whatever is built: here the catalogue lacks one."""
    with desk(World()) as one:
        lacking = {name: function for name, function in CATALOGUE.items() if name != "shut_down_machine"}
        ending = make(replace(one, catalogue=lacking), request("shut_down_machine"), "shut_down_machine")
    assert error_of(ending)["code"] == "Unimplemented"
    assert "not built" in error_of(ending)["message"]


def test_what_only_reads_is_refused_and_answered_without_a_record() -> None:
    with desk(World()) as one:
        late = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        for event, code in (
            (request("get_machine_status"), "NotFound"),
            (request("get_machine_status", data={}), "InvalidArgument"),
            (request("get_machine_status", extensions={"expirytime": late}), "DeadlineExceeded"),
        ):
            ending = make(one, event, "get_machine_status")
            assert error_of(ending)["code"] == code
            assert isinstance(ending, Finished)
            assert (ending.expects, ending.dead) == (None, None)
        astray = make(one, request("create_machine"), "get_machine_status")
        assert isinstance(astray, Finished)
        assert astray.dead is not None
        assert astray.dead.code is Code.INVALID_ARGUMENT


def test_steps_of_what_only_reads_are_bound_by_the_budget_too() -> None:
    def slow(_request: object, _ctx: object) -> Any:
        yield Step("look", "", "looks")
        time.sleep(0.05)
        yield Step("look", "", "looks")

    with desk(World(), budget_seconds=0.02) as one:
        patient = replace(one, catalogue={"get_machine_status": slow})
        error = error_of(make(patient, request("get_machine_status"), "get_machine_status"))
    assert error["code"] == "DeadlineExceeded"


def test_no_store_is_asked_for_an_identity_more_often_than_needed() -> None:
    """For a new machine: claim, lease, a look at the slots, identity, and the note that it is being made."""
    asked: list[str] = []

    class Counting(MemoryStore):
        async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
            asked.append(f"create {bucket}")
            return await super().create(bucket, key, value)

        async def get(self, bucket: Bucket, key: str) -> Any:
            asked.append(f"get {bucket}")
            return await super().get(bucket, key)

        async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
            asked.append(f"under {bucket}")
            return await super().under(bucket, *prefixes)

    with desk(World(), store=Counting()) as one:
        make(one, request(), sequence=5)
        places = [Bucket.OPERATIONS, Bucket.LEASES, Bucket.IDENTITIES, Bucket.IDENTITIES]
        assert sorted(asked[:5]) == sorted(
            [f"under {Bucket.LEASES}", *(f"create {bucket}" for bucket in places)]
        )
        make(one, request("delete_machine"), "delete_machine", sequence=6)
        ending = make(one, request(), sequence=4)
    assert error_of(ending)["code"] == "Canceled"


def test_a_turn_is_not_taken_on_the_word_of_a_store_that_lags_behind() -> None:
    """A copy of the bucket may answer a read with what was true before the delete."""

    class Lagging(MemoryStore):
        lags = False
        seen: tuple[Entry, ...] = ()

        async def get(self, bucket: Bucket, key: str) -> Entry | None:
            found = await super().get(bucket, key)
            if bucket is not Bucket.IDENTITIES or found is None or b"created" not in found.value:
                return found
            self.seen += (found,)
            lags, self.lags = self.lags, False
            return self.seen[0] if lags else found

    store = Lagging()
    with desk(World(), store=store) as one:
        make(one, request(id="first"), sequence=5)
        make(one, request(id="again"), sequence=5)  # reads what is there before the delete
        make(one, request("delete_machine"), "delete_machine", sequence=6)
        store.lags = True
        ending = make(one, request(id="late"), sequence=5)
    assert error_of(ending)["code"] == "Canceled"
    assert not store.lags


def test_a_create_waits_for_an_earlier_delete_that_has_begun_and_not_ended() -> None:
    """Between two tries of a delete it would get the rest of it refused, and what it has detached would go untold."""
    world = World()
    create, delete = request(id="anew"), request("delete_machine", id="delete")
    with desk(world) as one:
        make(one, request(id="first"), sequence=1)
        world.failures = [CallError(Code.UNAVAILABLE, "away")]
        assert isinstance(make(one, delete, "delete_machine", sequence=2), Again)
        waits = make(one, create, sequence=3)
        assert isinstance(waits, Again)
        assert not waits.begun
        assert asyncio.run(record_of(one, create)).attempts == 0
        ended = make(one, delete, "delete_machine", sequence=2)
        assert isinstance(ended, Finished)
        assert ended.result.type.endswith(".succeeded.v1")
        assert isinstance(make(one, create, sequence=3), Finished)
    assert world.effects == ["create m-1", "delete m-1", "create m-1"]


@pytest.mark.parametrize("bucket", [Bucket.LEASES, Bucket.IDENTITIES])
def test_records_that_do_not_answer_before_the_work_use_up_no_try(bucket: Bucket) -> None:
    """Each bucket elects a leader of its own: one may be away while the others answer."""

    class Away(MemoryStore):
        away = True

        async def create(self, place: Bucket, key: str, value: bytes) -> int | None:
            if self.away and place is bucket:
                raise StoreError("a leader is being elected")
            return await super().create(place, key, value)

    world, store, event = World(), Away(), request()
    with desk(world, store=store, attempts=3) as one:
        for _ in range(5):
            with pytest.raises(StoreError):
                make(one, event, sequence=1)
        assert asyncio.run(record_of(one, event)).attempts == 0
        store.away = False
        assert isinstance(make(one, event, sequence=1), Finished)
    assert world.effects == ["create m-1"]


@pytest.mark.parametrize("before", ["nothing", "a failure", "a shutdown"])
def test_a_create_that_a_later_delete_overtakes_takes_back_what_it_had_begun(before: str) -> None:
    world, undone = World(), list[str]()

    def break_off(_ctx: Context) -> None:
        raise CallError(Code.UNAVAILABLE, "away")

    def undo(request: CreateMachineRequest, _ctx: Context) -> Steps[None]:
        undone.append(request.machine_name)
        yield Step("undo", "", "undone")

    with desk(world) as plain:
        one, event = replace(plain, undos={"create_machine": undo}), request()
        if before == "a failure":
            world.between = break_off
            assert isinstance(make(one, event, sequence=1), Again)
        elif before == "a shutdown":
            one.stopping.set()
            assert isinstance(make(one, event, sequence=1), Again)
            one.stopping.clear()
        make(one, request("delete_machine"), "delete_machine", sequence=2)
        error = error_of(make(one, event, sequence=1))
    assert (error["code"], error["message"]) == (
        "Canceled",
        "a later request has removed it; nothing was made",
    )
    assert undone == ["m-1"] * (before != "nothing")


def test_waiting_for_a_create_that_will_be_tried_again_uses_up_no_try() -> None:
    """E26: between two tries of a create nobody holds its machine, and all the same it is being made."""
    world, create, delete = World(), request(), request("delete_machine")

    def being_made() -> CallError:
        return CallError(Code.ABORTED, "being created")

    with desk(world, attempts=2) as one:
        world.failures = [CallError(Code.RESOURCE_EXHAUSTED, "full")]
        assert isinstance(make(one, create, sequence=1), Again)
        for _ in range(3):
            world.failures = [being_made()]
            waiting = make(one, delete, "delete_machine", sequence=2)
            assert isinstance(waiting, Again)
            assert not waiting.begun
        assert asyncio.run(record_of(one, delete)).attempts == 0
        assert error_of(make(one, create, sequence=1))["code"] == "Canceled"
        world.failures = [being_made()]
        assert asyncio.run(record_of(one, delete)).attempts == 0
        assert isinstance(make(one, delete, "delete_machine", sequence=2), Again)
        assert asyncio.run(record_of(one, delete)).attempts == 1
        assert isinstance(make(one, delete, "delete_machine", sequence=2), Finished)


def test_creates_of_one_machine_do_not_wait_for_each_others_end() -> None:
    """Both meet a VM of the name that cannot be read: their tries count, or neither would ever end."""
    world = World()
    with desk(world, attempts=2) as one:
        for sequence, event in enumerate((request(), request()), 1):
            world.failures = [CallError(Code.ABORTED, "the name is taken by a VM that cannot be read yet")]
            ending = make(one, event, sequence=sequence)
            assert isinstance(ending, Again)
            assert ending.begun
            assert asyncio.run(record_of(one, event)).attempts == 1


def test_waiting_for_a_create_that_will_be_tried_again_ends_with_the_limit() -> None:
    """E26, its end: the wait counts from when it began, however often it was looked whether it is over."""
    world, delete = World(failures=[CallError(Code.UNAVAILABLE, "away")]), request("delete_machine")
    at, begun = 0, datetime.now(UTC)
    with desk(world, busy_seconds=60) as plain:
        one = replace(plain, clock=lambda: begun + timedelta(seconds=at))
        assert isinstance(make(one, request(), sequence=1), Again)
        for at in (0, 40, 80):
            world.failures = [CallError(Code.ABORTED, "being created")]
            ending = make(one, delete, "delete_machine", sequence=2)
            assert isinstance(ending, Again) == (at < 60)
    assert error_of(ending)["code"] == "Aborted"
