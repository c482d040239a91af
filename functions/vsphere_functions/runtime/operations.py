"""The record of an operation and how it may change; pure, whatever store it lies in."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from vsphere_events.code import Code
from vsphere_events.envelope import from_json
from vsphere_events.error import CallError


class State(StrEnum):
    """Where an operation stands; `done` and `dead` are final."""

    OPEN = "open"
    DONE = "done"
    DEAD = "dead"
    CANCEL_REQUESTED = "cancelRequested"


class Record(BaseModel):
    """What is known of a request beside its event.

    `sequence` is the request's place in its stream when it was first seen (a redrive keeps it; none over HTTP);
    `expects` the sequence of the result that the next one replaces; `claim` names the try that holds it;
    `first` names the first try, and so this request among all that ever had its token; `steps` counts progress over
    all tries; `canceled`: its caller wanted it to stop, and that stands; `busy_since` is when its machine was first
    found busy; `code` and `reason` say why it is dead, and `letter_due` that its dead letter may not be written yet.
    `result` is the result event in JSON format.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    state: State = State.OPEN
    source: str
    id: str
    digest: str | None = None
    sequence: int | None = None
    generation: int = 0
    expects: int = 0
    attempts: int = 0
    claim: str = ""
    first: str = ""
    steps: int = 0
    busy_since: datetime | None = None
    canceled: bool = False
    last_known_state: str | None = None
    code: Code | None = None
    reason: str | None = None
    letter_due: bool = False
    result: bytes | None = None

    @property
    def final(self) -> bool:
        """Whether nothing can change it any more but a redrive."""
        return self.state in {State.DONE, State.DEAD}

    @property
    def begun(self) -> bool:
        """Whether a try may have changed something."""
        return self.attempts > 0 or self.steps > 0

    @property
    def canceling(self) -> bool:
        """Whether all that is left to do is to undo it."""
        return self.state is State.CANCEL_REQUESTED

    def dump(self) -> bytes:
        """Render a line of JSON, and the result below it as it is."""
        head = self.model_dump_json(exclude={"result"}, exclude_defaults=True).encode()
        return head if self.result is None else head + b"\n" + self.result

    @classmethod
    def load(cls, value: bytes) -> Self:
        """Read what `dump` has written."""
        head, line, result = value.partition(b"\n")
        record = cls.model_validate_json(head)
        return record.model_copy(update={"result": result}) if line else record

    def changed(self, **fields: object) -> Self:
        """Return the record with other fields."""
        return self.model_copy(update=fields)


@dataclass(frozen=True, slots=True)
class Claim:
    """A try that wants to begin: whose request it is, its content, and a name of its own."""

    source: str
    id: str
    digest: str
    sequence: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Write this record; then the try is ours."""

    record: Record


@dataclass(frozen=True, slots=True)
class Replay:
    """It is finished: answer what the record holds."""

    record: Record


@dataclass(frozen=True, slots=True)
class Foreign:
    """Another request has this token; its waiter must hear nothing of ours."""

    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further try: end it with this error; `dead` when tries were used up, else it was canceled before it began."""

    record: Record
    error: CallError
    dead: bool


Admission: TypeAlias = Begin | Replay | Foreign | GiveUp


def admit(record: Record | None, claim: Claim, attempts: int) -> Admission:
    """Say what becomes of a delivery; the try is counted here, so a worker that dies of it counts too.

    A wish to cancel what another source never sent keeps no request away.
    """
    if record is None or (record.digest is None and (record.source, record.id) != (claim.source, claim.id)):
        return Begin(
            Record(
                source=claim.source,
                id=claim.id,
                digest=claim.digest,
                sequence=claim.sequence,
                attempts=1,
                claim=claim.name,
                first=claim.name,
            )
        )
    if (record.source, record.id) != (claim.source, claim.id):
        return Foreign("another source has used this request token")
    if record.digest not in {None, claim.digest}:
        return Foreign("this source has used the id for another request; take a new id")
    if record.final:
        return Replay(record)
    return _again(record, claim, attempts)


def _again(record: Record, claim: Claim, attempts: int) -> Admission:
    record = record.changed(
        digest=claim.digest,
        sequence=record.sequence or claim.sequence,
        claim=claim.name,
        first=record.first or claim.name,
        busy_since=None,
    )
    if record.canceling and not record.begun:
        return GiveUp(record, stopped(record), dead=False)
    if record.attempts >= attempts:
        message = f"given up: the worker stopped in the last of {record.attempts} tries"
        return GiveUp(record, _error(record, Code.UNKNOWN, message), dead=True)
    return Begin(record.changed(attempts=record.attempts + 1))


def stopped(record: Record) -> CallError:
    """Make the error of a request that its caller has canceled."""
    return _error(record, Code.CANCELED, "canceled at the caller's wish")


def _error(record: Record, code: Code, message: str) -> CallError:
    return CallError(code, message, last_known_state=record.last_known_state)


def uncounted(record: Record) -> Record:
    """Take back a try that was none: the machine was busy, or the worker shut down.

    What is being undone has begun, whatever became of the tries.
    """
    return record.changed(attempts=max(record.attempts - 1, 1 if record.canceling else 0), claim="")


def stepped(record: Record, state: str | None) -> Record:
    """Remember how far a try has come."""
    return record.changed(steps=record.steps + 1, last_known_state=state or record.last_known_state)


def finished(
    record: Record, result: bytes, *, dead: CallError | None = None, canceled: bool = False
) -> Record:
    """Make it final with its result event; `dead` says what the dead letter tells, and keeps a wish to cancel."""
    return record.changed(
        state=State.DEAD if dead else State.DONE,
        canceled=record.canceled if dead else canceled,
        code=dead and dead.code,
        reason=dead and dead.message,
        letter_due=dead is not None,
        last_known_state=None,
        result=result,
    )


def canceled(record: Record | None, source: str, event_id: str) -> Record:
    """Ask an operation to stop, or one that is not known yet never to begin; the tries count anew, for undoing it.

    One that was canceled before stays as it is. NotFound when another source has the token, FailedPrecondition when
    it ended otherwise.
    """
    if record is None:
        return Record(state=State.CANCEL_REQUESTED, source=source, id=event_id, canceled=True)
    if (record.source, record.id) != (source, event_id):
        raise CallError(Code.NOT_FOUND, "this source has no such request")
    if record.canceling or (record.canceled and record.state is State.DONE):
        return record
    if record.final:
        raise CallError(Code.FAILED_PRECONDITION, f"the request has ended: {record.state}")
    return record.changed(state=State.CANCEL_REQUESTED, canceled=True, attempts=int(record.begun))


def redriven(record: Record, generation: int, result_sequence: int) -> Record:
    """Open an operation that died in a generation for new tries; opened already, it stays as it is.

    Its next result replaces the one at `result_sequence`, and goes on from the state that it tells.
    One that could not be undone goes on being undone. FailedPrecondition when it has ended otherwise.
    """
    if not record.final and record.generation == generation + 1:
        return record
    if record.state is not State.DEAD:
        raise CallError(
            Code.FAILED_PRECONDITION, f"only a dead request is sent again; this one is {record.state}"
        )
    if record.generation != generation:
        raise CallError(Code.FAILED_PRECONDITION, "it has died again since; its later dead letter counts")
    return record.changed(
        state=State.CANCEL_REQUESTED if record.canceled else State.OPEN,
        generation=generation + 1,
        expects=result_sequence,
        attempts=int(record.canceled),
        claim="",
        code=None,
        reason=None,
        letter_due=False,
        last_known_state=_state_in(record.result),
        result=None,
    )


def _state_in(result: bytes | None) -> str | None:
    data = from_json(result).data if result else None
    state = data.get("lastKnownState") if isinstance(data, dict) else None
    return state if isinstance(state, str) else None
