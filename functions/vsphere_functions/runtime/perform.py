"""What both hosts do with a request between receiving the event and answering it."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

from vsphere_events import results
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import from_json
from vsphere_events.error import CallError
from vsphere_events.model import Result
from vsphere_events.volume import anonymous_id
from vsphere_functions.context import Context
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.cancelling import Cancelling
from vsphere_functions.runtime.catalogue import Catalogue, implementation
from vsphere_functions.runtime.delivery import Case, Dead, Trouble, decide
from vsphere_functions.runtime.dispatch import Address, Call, check_address, dispatch
from vsphere_functions.runtime.drive import drive
from vsphere_functions.runtime.gate import Gate
from vsphere_functions.runtime.operations import Foreign, Record, State
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import Store
from vsphere_functions.runtime.stores import stores_of
from vsphere_functions.runtime.unfinished import Making
from vsphere_functions.steps import Step
from vsphere_functions.vsphere.fence import Fence, Unfenced
from vsphere_functions.vsphere.sessions import Sessions
from vsphere_functions.vsphere.stores import Stores


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the host knows beside the event: its place in the stream (none over HTTP), when it was published.

    `first`: it was not delivered before.
    """

    sequence: int | None = None
    published: datetime | None = None
    first: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What a dead letter says beside the original message."""

    code: Code
    reason: str
    attempts: int
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """Publish `result`, then acknowledge; before it the dead letter, if there is one, and record that it is written.

    `expects` is the sequence of the last message on the result's subject, 0 for none; None: whatever is there.
    `replayed`: it was finished before.
    """

    result: CloudEvent
    expects: int | None = None
    dead: DeadLetter | None = None
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """Not finished: deliver again after `delay` seconds; `begun` is false for what only waits for its turn."""

    delay: float
    reason: str
    begun: bool = True


@dataclass(frozen=True, slots=True)
class Lost:
    """Another worker has taken over: publish nothing, acknowledge nothing."""


Ending: TypeAlias = Finished | Again | Foreign | Lost
Tell: TypeAlias = Callable[[CloudEvent], None]
Prepared: TypeAlias = Call | CallError


@dataclass(frozen=True, slots=True)
class Desk:
    """What a process holds once for all its requests.

    `pool` runs the functions; `undos` take back what a canceled one has made, by the same names; `lease` is in seconds;
    `fits` says whether a result can be sent; `gate` knows who waits for a slot; `stopping` is set when the process is
    to end: tries then check in at their next step.
    """

    name: str
    settings: Settings
    catalogue: Catalogue
    sessions: Sessions
    store: Store
    pool: Executor
    undos: Catalogue = field(default_factory=dict)
    lease: float = 30
    fits: Callable[[CloudEvent], bool] = lambda _: True
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    gate: Gate = field(default_factory=Gate)
    stopping: threading.Event = field(default_factory=threading.Event)
    background: set[asyncio.Task[None]] = field(default_factory=set)
    stores: dict[tuple[str, str], Stores] = field(default_factory=dict)

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside, that nobody waits for but the end of the process."""
        task = asyncio.get_running_loop().create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def run(
        self,
        call: Call,
        took: Callable[[Step], None],
        fence: Fence | None = None,
        *,
        maker: str = "",
        undo: bool = False,
    ) -> Result:
        """Run the function, or what undoes it, in a thread; CallError, or Interrupted, when it comes to no result."""
        event, name = call.address.event, call.address.function.name
        context = partial(
            Context,
            label=call.address.label,
            credentials=call.credentials,
            user_data=call.user_data,
            fence=fence or Unfenced(),
            unfinished=self.making(call),
            requests=Cancelling(self.store, asyncio.get_running_loop(), call.address.label),
            stores=self._stores(call.address.label, call.host),
            operation=anonymous_id(event.source, event.id),
            maker=maker,
            clock=self.clock,
        )
        function = self.undos[name] if undo else implementation(self.catalogue, name)
        inside = contextvars.copy_context()

        def work() -> Result:
            with self.sessions.work() as lent:
                done: Result = drive(function, call.request, context(sessions=lent), took)
            return done

        return await asyncio.get_running_loop().run_in_executor(self.pool, inside.run, work)

    def _stores(self, label: str, host: str) -> Stores:
        known = self.stores.get((label, host))
        if known is None:
            known = self.stores[label, host] = stores_of(self.settings, label, host)
        return known

    def making(self, call: Call) -> Making:
        """Return the notes of creates at the call's vCenter; to be called on the event loop."""
        return Making(self.store, asyncio.get_running_loop(), call.host)

    def event(self, address: Address, outcome: Result | CallError, generation: int = 0) -> CloudEvent:
        """Make the result event; one that cannot be sent becomes a failed result that says so."""
        try:
            event = self._event(address, outcome, generation)
        except Exception:  # noqa: BLE001 - an answer that cannot be sent must not be lost
            telemetry.log().exception("result cannot be rendered")
            return self._event(address, CallError(Code.INTERNAL, "the result cannot be rendered"), generation)
        if self.fits(event):
            return event
        error = CallError(
            Code.INTERNAL,
            "the result is over the server's payload limit",
            provider_id=_known(outcome, "provider_id"),
            last_known_state=_known(outcome, "last_known_state"),
        )
        event = self._event(address, error, generation)
        if not self.fits(event):  # then the state is what is too big; it is advisory
            error.last_known_state = None
            event = self._event(address, error, generation)
        return event

    def _event(self, address: Address, outcome: Result | CallError, generation: int) -> CloudEvent:
        make: Callable[..., CloudEvent] = (
            results.failed if isinstance(outcome, CallError) else results.succeeded
        )
        return make(
            address.function.name,
            address.event,
            address.label,
            outcome,
            at=self.clock(),
            generation=generation,
        )


def prepare(address: Address, settings: Settings) -> tuple[Prepared, Trouble]:
    """Validate a request: the call, or why it is refused; and what kind of trouble a refusal is."""
    try:
        check_address(address)
    except CallError as error:
        return error, Trouble.MISADDRESSED
    try:
        return dispatch(address, settings), Trouble.REFUSED
    except CallError as error:
        return error, Trouble.REFUSED


async def answer(desk: Desk, address: Address) -> Finished:
    """Answer a request that changes nothing: afresh each time, whatever the code."""
    limits = desk.settings.limits
    prepared, trouble = prepare(address, desk.settings)
    if refusal := refusal_of(address, prepared, desk.clock()):
        dead = isinstance(decide(trouble, Case(limits, changes=False)), Dead)
        letter = DeadLetter(refusal.code, refusal.message, 1) if dead else None
        return Finished(desk.event(address, refusal), dead=letter)
    assert isinstance(prepared, Call)
    outcome: Result | CallError
    try:
        outcome = await desk.run(prepared, _within(limits.budget_seconds))
    except CallError as error:
        outcome = error
    return Finished(desk.event(address, outcome))


def refusal_of(address: Address, prepared: Prepared, now: datetime) -> CallError | None:
    """Say why a request is not begun: it is not valid, or its producer no longer waits for it."""
    if isinstance(prepared, CallError):
        return prepared
    if address.expires is not None and now >= address.expires:
        return CallError(Code.DEADLINE_EXCEEDED, "the request's expirytime has passed")
    return None


def resumed(call: Call, record: Record) -> Call:
    """Give the request what an earlier try has recorded, which is newer than what its caller knows."""
    known, request = record.last_known_state, call.request
    if known is None or "last_known_state" not in type(request).model_fields:
        return call
    return replace(call, request=request.model_copy(update={"last_known_state": known}))


def replayed(record: Record) -> Finished:
    """Answer a request that is finished, as it was answered before."""
    assert record.result is not None
    return Finished(from_json(record.result), expects=record.expects, dead=letter_of(record), replayed=True)


def letter_of(record: Record) -> DeadLetter | None:
    """Say what the dead letter of a finished request says, if one is still to be written."""
    if record.state is not State.DEAD or not record.letter_due:
        return None
    return DeadLetter(record.code or Code.UNKNOWN, record.reason or "", record.attempts, record.generation)


def spent() -> CallError:
    """Make the error of a try whose time is up."""
    return CallError(Code.DEADLINE_EXCEEDED, "the time for one try is spent; the next one goes on from here")


def _within(seconds: float) -> Callable[[Step], None]:
    deadline = time.monotonic() + seconds

    def took(_step: Step) -> None:
        if time.monotonic() > deadline:
            raise spent()

    return took


def _known(outcome: Result | CallError, name: str) -> str | None:
    value = getattr(outcome, name, None)
    return None if value is None else str(value)
