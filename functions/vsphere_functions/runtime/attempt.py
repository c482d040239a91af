"""One try of a request that changes something: claim, order, work, store the result."""

import asyncio
import random
from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import TypeVar

from vsphere_events.code import Code
from vsphere_events.envelope import to_json
from vsphere_events.error import CallError
from vsphere_events.model import Result
from vsphere_events.outcome import Progress
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.audit import audit
from vsphere_functions.runtime.check_in import CheckIn
from vsphere_functions.runtime.claims import CancelRequested, Superseded
from vsphere_functions.runtime.delivery import Case, Dead, Decision, Outcome, Retry, Wait, decide
from vsphere_functions.runtime.dispatch import Address, Call
from vsphere_functions.runtime.drive import Interrupted
from vsphere_functions.runtime.entrance import Entrance
from vsphere_functions.runtime.operations import (
    Admission,
    Begin,
    Foreign,
    GiveUp,
    Record,
    Replay,
    finished,
    stepped,
    stopped,
    uncounted,
)
from vsphere_functions.runtime.perform import (
    Again,
    Delivery,
    Desk,
    Ending,
    Finished,
    Lost,
    Tell,
    answer,
    letter_of,
    prepare,
    refusal_of,
    replayed,
    resumed,
)
from vsphere_functions.runtime.store import StoreError, key_of
from vsphere_functions.runtime.turns import announce

T = TypeVar("T")

_SOON = 0.5  # seconds: two deliveries met at the record; the next look finds it settled
_PATIENCE = 10  # leases: after that somebody else does the work again


async def perform(desk: Desk, address: Address, delivery: Delivery, tell: Tell) -> Ending:
    """Take a request to its end, or to its next try; StoreError when the records cannot be reached.

    `tell` is given each progress event, on the event loop.
    """
    with telemetry.about(request=address.token, function=address.function.name, vcenter=address.label):
        if not address.function.changes:
            return await answer(desk, address)
        ending = await Attempt(desk, address, delivery, tell).make()
        audit(address, ending)
        return ending


class Attempt:
    """A try, from its claim to what becomes of it; lives on the event loop, the function in a thread."""

    def __init__(self, desk: Desk, address: Address, delivery: Delivery, tell: Tell) -> None:
        self._desk = desk
        self._limits = desk.settings.limits
        self._address = address
        self._delivery = delivery
        self._prepared, self._trouble = prepare(address, desk.settings)
        self._entrance = Entrance(desk, address, delivery, self._prepared)
        self._held, self._lease = self._entrance.held, self._entrance.lease
        self._keeps_slots = False
        self._busy_since: datetime | None = None
        self._abandoned = False
        self._steps = CheckIn(desk, address, self._held, tell)

    async def make(self) -> Ending:
        """Come in and work; what is held is let go at the end, or runs out by itself when the work goes on unseen."""
        try:
            if self._refusal() is None and await self._entrance.in_line():
                return self._entrance.wait()
            return await self._entered(*await self._before(self._entrance.enter()))
        except CancelRequested:
            return Again(_SOON, "canceled at the caller's wish")
        except Superseded:
            return Lost() if self._held.ours else Again(_SOON, "another delivery of it was faster")
        finally:
            if not self._abandoned:
                self._desk.aside(self._entrance.let_go(keeps_slots=self._keeps_slots))

    async def _entered(self, admission: Admission, leased: bool) -> Ending:  # noqa: FBT001 - of the pair it is given
        if isinstance(admission, Foreign):
            return admission
        if isinstance(admission, Replay):
            return replayed(admission.record)
        if leased or (isinstance(admission, GiveUp) and not admission.dead):
            return await self._admitted(admission)
        return await self._busy()

    async def _admitted(self, admission: Begin | GiveUp) -> Ending:
        before = self._held.record
        self._busy_since = before.busy_since
        await self._held.write(admission.record)
        if isinstance(admission, GiveUp):
            return await self._end(admission.error, dead=admission.dead)
        if not self._held.record.canceling:
            if refusal := self._refusal():
                return await self._close(refusal, self._decide(self._trouble))
            if not await self._before(self._entrance.seated(before)):
                await self._write(uncounted(self._held.record))
                return self._entrance.wait()
        with self._lease.kept():
            return await self._conclude(await self._work())

    async def _before(self, work: Awaitable[T]) -> T:
        """Do what comes before the function is called; records that do not answer there make it no try."""
        try:
            return await work
        except StoreError:
            if self._held.ours:
                await self._write(uncounted(self._held.record))
            raise

    def _refusal(self) -> CallError | None:
        refusal = refusal_of(self._address, self._prepared, self._desk.clock())
        if refusal and refusal.last_known_state is None:
            refusal.last_known_state = self._held.record.last_known_state
        return refusal

    async def _work(self) -> Result | CallError | Wait:
        """Run the function, unless a later request for the same thing has been faster; undo it when that is wanted."""
        before = self._held.record
        if before.canceling:
            return await self._undo(stopped(before))
        call = self._prepared
        assert isinstance(call, Call)
        try:
            came = await self._before(announce(self._desk.making(call), call, before.sequence))
        except CallError as overtaken:
            # A try that a shutdown has cut short is not among the attempts.
            begun = before.attempts > 1 or before.last_known_state is not None
            return await self._undo(overtaken) if begun and overtaken.code is Code.CANCELED else overtaken
        if not came:
            return Wait.BUSY
        try:
            outcome: Result | CallError | Wait = await self._run(call)
        except CallError as error:
            outcome = Wait.BUSY if await self._waits_for_its_maker(error, call) else error
        return await self._undo(outcome) if self._held.record.canceling else outcome

    async def _waits_for_its_maker(self, error: CallError, call: Call) -> bool:
        """Tell whether what failed has to wait until another request has made its machine, or has given that up.

        Creates do not wait for each other: each would for the other's end.
        """
        if error.code is not Code.ABORTED or call.machine is None or call.makes:
            return False
        return await self._desk.making(call).by_another(*call.machine, self._address.key)

    async def _undo(self, outcome: Result | CallError | Wait) -> Result | CallError | Wait:
        """Take back what a canceled or overtaken request has made; what cannot be undone stays, as does its outcome."""
        if isinstance(outcome, Wait) or self._address.function.name not in self._desk.undos:
            return outcome
        if not isinstance(self._prepared, Call):  # the settings have changed since it was begun
            return self._refusal() or outcome
        self._steps.begin()
        try:
            left = await self._run(self._prepared, undo=True)
        except CallError as error:
            error.message = f"canceled, but not all of it could be undone: {error.message}"
            return error
        if isinstance(left, Wait):
            return left
        return stopped(self._held.record) if self._held.record.canceling else outcome

    async def _run(self, call: Call, *, undo: bool = False) -> Result | Wait:
        record = self._held.record
        maker = key_of(self._address.key, record.first) if record.first else ""
        try:
            return await self._desk.run(
                resumed(call, record), self._steps.took, self._lease, maker=maker, undo=undo
            )
        except Interrupted:
            return Wait.SHUTDOWN
        except asyncio.CancelledError:
            self._abandoned = True  # its thread still waits for vCenter: what it has asked for may yet happen
            raise

    async def _busy(self) -> Ending:
        """Wait for the machine; a request that nobody works on may have waited enough, unless it is to be undone."""
        record, now = self._held.record, self._desk.clock()
        since = record.busy_since or self._busy_since or now
        decision = self._decide(Wait.BUSY, waited=(now - since).total_seconds())
        if record.claim and not self._held.ours:
            delay = decision.delay if isinstance(decision, Retry) else _SOON
            return Again(delay, "another delivery of it is being worked on")
        record = uncounted(record) if self._held.ours else record
        await self._write(record.changed(busy_since=since))
        if (refusal := self._refusal()) and not record.canceling:
            return await self._close(refusal, self._decide(self._trouble))
        if isinstance(decision, Retry):
            return Again(decision.delay, Wait.BUSY.value, begun=False)
        return await self._close(CallError(Code.ABORTED, Wait.BUSY.value), decision)

    async def _conclude(self, outcome: Result | CallError | Wait) -> Ending:
        if outcome is Wait.BUSY:
            return await self._busy()
        decision = self._decide(_code(outcome))
        if isinstance(decision, Retry):
            return await self._later(outcome, decision)
        assert not isinstance(outcome, Wait)
        try:
            return await self._close(outcome, decision)
        except CancelRequested:  # it came in before the result could be stored
            return await self._conclude(await self._undo(outcome))

    async def _close(self, outcome: Result | CallError, decision: Decision) -> Ending:
        return await self._end(outcome, dead=isinstance(decision, Dead))

    async def _later(self, outcome: Result | CallError | Wait, decision: Retry) -> Ending:
        """Check out until the next try, and say so where this one counts."""
        record = self._held.record
        record = record.changed(claim="") if decision.counts else uncounted(record)
        if not isinstance(outcome, CallError):
            self._keeps_slots = self._goes_on()
            await self._write(record)
            return Again(decision.delay, Wait.SHUTDOWN.value)
        self._keeps_slots = self._goes_on() and outcome.code is not Code.RESOURCE_EXHAUSTED
        await self._write(stepped(record, outcome.last_known_state))
        said = Progress(
            step="retry",
            message=outcome.message,
            last_known_state=outcome.last_known_state,
            attempt=record.attempts,
            code=outcome.code,
            next_attempt=self._desk.clock() + timedelta(seconds=decision.delay),
        )
        self._steps.report(said, self._held.record.steps)
        telemetry.log().info(
            "a request will be tried again",
            code=outcome.code,
            reason=outcome.message,
            attempt=record.attempts,
            delay=round(decision.delay, 1),
        )
        return Again(decision.delay, f"{outcome.code}: {outcome.message}")

    def _goes_on(self) -> bool:
        """Tell whether what this try began may go on without it: a clone, which counts until the next try."""
        return self._delivery.sequence is not None and self._held.record.last_known_state is not None

    async def _end(self, outcome: Result | CallError, *, dead: bool) -> Ending:
        """Make it final: the record first, whoever is killed after that replays it."""
        record = self._held.record
        event = self._desk.event(self._address, outcome, record.generation)
        reason = outcome if dead and isinstance(outcome, CallError) else None
        gone = isinstance(outcome, CallError) and outcome.code is Code.CANCELED
        await self._write(finished(record, to_json(event), dead=reason, canceled=record.canceled and gone))
        if isinstance(outcome, CallError):
            say = telemetry.log().warning if dead else telemetry.log().info
            what = "a request is given up" if dead else "a request has failed"
            say(what, code=outcome.code, reason=outcome.message, attempts=record.attempts)
        if isinstance(self._prepared, Call) and (makes := self._prepared.makes):
            self._desk.aside(self._desk.making(self._prepared).ended(*makes, self._address.key))
        return Finished(event, expects=record.expects, dead=letter_of(self._held.record))

    async def _write(self, record: Record) -> None:
        await self._held.write_surely(record, self._desk.lease * _PATIENCE)

    def _decide(self, outcome: Outcome, waited: float = 0) -> Decision:
        expires = self._address.expires
        if self._held.record.canceling:  # what was begun is undone, however late it is
            waited, expires = 0, None
        case = Case(
            self._limits,
            attempt=self._held.record.attempts,
            waited=waited,
            left=(expires - self._desk.clock()).total_seconds() if expires else None,
            jitter=random.random(),  # noqa: S311 - spreads retries, hides nothing
        )
        return decide(outcome, case)


def _code(outcome: Result | CallError | Wait) -> Code | Wait:
    if isinstance(outcome, Wait):
        return outcome
    return outcome.code if isinstance(outcome, CallError) else Code.OK
