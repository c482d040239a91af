"""A request is asked to stop: before it comes, while it waits, runs, is being undone, and after it has ended."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.functions import World, address, desk, performed, request
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineRequest
from vsphere_functions.context import Context
from vsphere_functions.request.cancel_request import cancel_request
from vsphere_functions.runtime.dispatch import dispatch
from vsphere_functions.runtime.gate import caps_of
from vsphere_functions.runtime.operations import Record, State, canceled, redriven
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Ending, Finished
from vsphere_functions.runtime.store import Bucket, MemoryStore, StoreError, key_of
from vsphere_functions.steps import Step, Steps


@dataclass
class Undoing(World):
    """A world whose creates can be undone, if nothing is in the way; `made` are those that requests made."""

    made: dict[str, str] = field(default_factory=dict)
    in_the_way: list[Exception] = field(default_factory=list)
    undoing: Callable[[], Any] = lambda: None

    def create_machine(self, request: CreateMachineRequest, ctx: Context) -> Steps[Any]:
        self.made.setdefault(request.machine_name, ctx.maker)
        return (yield from super().create_machine(request, ctx))

    def undo(self, request: CreateMachineRequest, ctx: Context) -> Steps[None]:
        ctx.fence.check()
        self.seen_states.append(request.last_known_state)
        yield Step("undo", "undoing", "about to")
        self.undoing()
        if self.in_the_way:
            raise self.in_the_way.pop(0)
        if self.made.get(request.machine_name) == ctx.maker:
            self.machines.discard(request.machine_name)
            self.effects.append(f"undo {request.machine_name}")
        yield Step("undone", "undone", "done")


@contextmanager
def canceling(world: World, *, undo: bool = True, **more: Any) -> Iterator[Desk]:
    """A desk that knows cancel_request too."""
    with desk(world, **more) as one:
        undos = {"create_machine": world.undo} if undo and isinstance(world, Undoing) else {}
        yield replace(one, catalogue={**one.catalogue, "cancel_request": cancel_request}, undos=undos)


def wish(event: CloudEvent, source: str | None = None) -> CloudEvent:
    data = {"source": source or event.source, "id": event.id}
    return request("cancel_request", data=data)


async def make(one: Desk, event: CloudEvent, **delivery: Any) -> Ending:
    function = event.type.split(".")[2]
    return await performed(one, address(event, function), Delivery(**delivery))


async def answer(one: Desk, event: CloudEvent, **delivery: Any) -> dict[str, Any]:
    """The data of a request's result."""
    ending = await make(one, event, **delivery)
    assert isinstance(ending, Finished)
    assert ending.result.extension("correlationid") == event.id
    assert isinstance(ending.result.data, dict)
    return ending.result.data


async def cancel(one: Desk, event: CloudEvent, source: str | None = None) -> str:
    """The state that the request was in, or the code of why it cannot be canceled."""
    data = await answer(one, wish(event, source))
    return str(data["error"]["code"] if "error" in data else data["state"])


async def record_of(one: Desk, event: CloudEvent) -> Record:
    entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
    assert entry
    return Record.load(entry.value)


def code_of(data: dict[str, Any]) -> str:
    return str(data["error"]["code"])


def midway(one: Desk, event: CloudEvent, loop: asyncio.AbstractEventLoop) -> Callable[[Any], None]:
    """Cancel while the function is between two steps."""

    def between(_ctx: object) -> None:
        assert asyncio.run_coroutine_threadsafe(cancel(one, event), loop).result(30) == "open"

    return between


def test_a_request_that_comes_after_its_cancel_never_begins() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        assert await cancel(one, event) == "absent"
        data = await answer(one, event, sequence=7)
        assert (code_of(data), data["lastKnownState"]) == ("Canceled", None)
        again = await make(one, event)
        assert isinstance(again, Finished)
        assert again.replayed
        assert await cancel(one, event) == "done"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert not world.seen_states


def test_a_request_that_waits_for_its_machine_ends_at_its_next_delivery_though_that_is_still_busy() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        call = dispatch(address(event), one.settings)
        await one.store.create(Bucket.LEASES, call.identities[0], b"another's")
        assert isinstance(await make(one, event), Again)
        assert await cancel(one, event) == "open"
        assert code_of(await answer(one, event)) == "Canceled"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert not world.seen_states


def test_what_runs_stops_at_its_next_step_and_is_undone() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        world.between = midway(one, event, asyncio.get_running_loop())
        data = await answer(one, event)
        assert (code_of(data), data["lastKnownState"]) == ("Canceled", "undone")
        assert data["error"]["retryable"] is False
        assert await cancel(one, event) == "done"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1", "undo m-1"]
    assert world.seen_states == [None, "on"]


class Late(MemoryStore):
    """Somebody cancels just before the result of one request is stored."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        entry = await self.get(bucket, key)
        if key == self.key and entry and Record.load(value).state is State.DONE:
            record = Record.load(entry.value)
            if record.state is State.OPEN:
                now = canceled(record, record.source, record.id)
                await super().update(bucket, key, now.dump(), entry.revision)
        return await super().update(bucket, key, value, revision)


def test_a_create_that_hears_of_it_when_it_stores_its_result_is_undone() -> None:
    world, event = Undoing(), request()
    with canceling(world, store=Late(address(event).key)) as one:
        assert code_of(asyncio.run(answer(one, event))) == "Canceled"
    assert world.effects == ["create m-1", "undo m-1"]


def test_a_result_stands_where_nothing_can_be_undone() -> None:
    world, event = Undoing(machines={"m-1"}), request("delete_machine")

    async def play(one: Desk) -> None:
        assert "error" not in await answer(one, event)
        assert await cancel(one, event) == "FailedPrecondition"

    with canceling(world, store=Late(address(event).key)) as one:
        asyncio.run(play(one))
    assert world.effects == ["delete m-1"]


def test_what_cannot_be_undone_stops_and_says_how_far_it_came() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        world.between = midway(one, event, asyncio.get_running_loop())
        data = await answer(one, event)
        assert (code_of(data), data["lastKnownState"]) == ("Canceled", "on")

    with canceling(world, undo=False) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1"]


def test_only_a_request_of_that_source_that_has_not_ended_is_canceled() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        await answer(one, event)
        data = await answer(one, wish(event))
        assert (code_of(data), data["error"]["message"]) == (
            "FailedPrecondition",
            "the request has ended: done",
        )
        assert await cancel(one, event, "/another") == "NotFound"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1"]


def test_a_wish_for_what_another_source_never_sent_keeps_no_request_away() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        assert await cancel(one, event, "/another") == "absent"
        assert "error" not in await answer(one, event)

    with canceling(world) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1"]


def test_a_cancel_that_is_delivered_again_or_sent_twice_is_one() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        first = wish(event)
        assert (await answer(one, first))["state"] == "absent"
        assert (await answer(one, first))["state"] == "absent"
        assert await cancel(one, event) == "absent"
        assert code_of(await answer(one, event)) == "Canceled"

    with canceling(world) as one:
        asyncio.run(play(one))


def test_what_could_not_be_undone_at_once_is_undone_by_the_next_delivery() -> None:
    """After its expirytime, too."""
    world = Undoing(in_the_way=[CallError(Code.UNAVAILABLE, "away", last_known_state="half undone")])

    async def play(one: Desk) -> None:
        expiry = (one.clock() + timedelta(minutes=1)).isoformat()
        event = request(extensions={"expirytime": expiry})
        world.between = midway(one, event, asyncio.get_running_loop())
        ending = await make(one, event, sequence=1)
        assert isinstance(ending, Again)
        assert "canceled, but not all of it could be undone: away" in ending.reason
        late = replace(one, clock=lambda: datetime.now(UTC) + timedelta(hours=2))
        assert code_of(await answer(late, event, sequence=1)) == "Canceled"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1", "undo m-1"]
    assert world.seen_states == [None, "on", "half undone"]


def test_what_a_worker_left_that_died_is_undone_by_the_next_and_takes_no_slot() -> None:
    event = request()
    key = address(event).key
    world = Undoing(machines={"m-1"}, made={"m-1": key_of(key, "gone")})

    async def play(one: Desk) -> None:
        for cap in caps_of(dispatch(address(event), one.settings), one.settings.limits):
            await one.store.create(Bucket.LEASES, f"slot.{cap.key}.0", b"another's")
        begun = Record(source=event.source, id=event.id, attempts=4, claim="gone", first="gone", steps=3)
        dying = canceled(begun, event.source, event.id)
        await one.store.create(Bucket.OPERATIONS, key, dying.dump())
        record = await record_of(one, event)
        assert (record.attempts, record.state) == (1, State.CANCEL_REQUESTED)
        assert code_of(await answer(one, event)) == "Canceled"
        assert (await record_of(one, event)).canceled

    with canceling(world, creates_per_vcenter=1, creates_per_template=1) as one:
        asyncio.run(play(one))
    assert world.effects == ["undo m-1"]


def test_what_can_never_be_undone_is_dead_and_goes_on_being_undone_when_it_is_sent_again() -> None:
    away = CallError(Code.UNAVAILABLE, "away")
    world, event = Undoing(in_the_way=[away, away]), request()

    async def play(one: Desk) -> None:
        world.between = midway(one, event, asyncio.get_running_loop())
        assert isinstance(await make(one, event), Again)
        ending = await make(one, event)
        assert isinstance(ending, Finished)
        assert ending.dead
        assert ending.dead.reason.startswith("canceled, but not all of it could be undone")
        assert await cancel(one, event) == "FailedPrecondition"
        world.between = lambda _: None
        entry = await one.store.get(Bucket.OPERATIONS, address(event).key)
        assert entry
        record = redriven(Record.load(entry.value), 0, 1)
        await one.store.update(Bucket.OPERATIONS, address(event).key, record.dump(), entry.revision)
        assert code_of(await answer(one, event)) == "Canceled"

    with canceling(world, attempts=2) as one:
        asyncio.run(play(one))
    assert world.effects == ["create m-1", "undo m-1"]


def test_what_fails_for_good_while_it_is_undone_says_that_something_is_left() -> None:
    world, event = Undoing(in_the_way=[CallError(Code.FAILED_PRECONDITION, "held")]), request()

    async def play(one: Desk) -> None:
        world.between = midway(one, event, asyncio.get_running_loop())
        data = await answer(one, event)
        assert code_of(data) == "FailedPrecondition"
        assert data["error"]["message"] == "canceled, but not all of it could be undone: held"

    with canceling(world) as one:
        asyncio.run(play(one))


def test_a_shutdown_while_it_is_undone_leaves_the_rest_to_the_next_worker() -> None:
    world, event = Undoing(), request()

    async def play(one: Desk) -> None:
        world.between = midway(one, event, asyncio.get_running_loop())
        world.undoing = one.stopping.set
        assert await make(one, event) == Again(0, "the worker is shutting down")
        one.stopping.clear()
        world.undoing = lambda: None
        assert code_of(await answer(one, event)) == "Canceled"

    with canceling(world) as one:
        asyncio.run(play(one))
    assert "m-1" not in world.machines


def test_records_that_cannot_be_reached_are_asked_again() -> None:
    event = request()

    class Away(MemoryStore):
        times = 1

        async def get(self, bucket: Bucket, key: str) -> Any:
            if self.times and key == address(event).key:
                self.times -= 1
                raise StoreError("away")
            return await super().get(bucket, key)

    async def play(one: Desk) -> None:
        asked = wish(event)
        ending = await make(one, asked)
        assert isinstance(ending, Again)
        assert ending.reason.startswith("Unavailable")
        assert (await answer(one, asked))["state"] == "absent"

    with canceling(Undoing(), store=Away()) as one:
        asyncio.run(play(one))


@pytest.mark.parametrize("state", [State.OPEN, State.CANCEL_REQUESTED])
def test_a_wish_that_meets_a_step_is_written_after_it(state: State) -> None:
    """Its owner writes at the same moment: the wish is written over what that has written."""
    event = request()
    begun = Record(state=state, source=event.source, id=event.id, digest="d", attempts=1)

    class Racing(MemoryStore):
        raced = 0

        async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
            if key == address(event).key and not self.raced:
                self.raced += 1
                await super().update(bucket, key, begun.changed(steps=1).dump(), revision)
            return await super().update(bucket, key, value, revision)

    async def play(one: Desk) -> None:
        await one.store.create(Bucket.OPERATIONS, address(event).key, begun.dump())
        assert await cancel(one, event) == state.value
        record = await record_of(one, event)
        assert (record.state, record.steps) == (State.CANCEL_REQUESTED, 1 if state is State.OPEN else 0)

    with canceling(Undoing(), store=Racing()) as one:
        asyncio.run(play(one))
