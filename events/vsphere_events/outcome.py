"""What every function can say beside its result: an error, or how far it is."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import Bool, Int, Model, Result


class ErrorDetail(Model):
    """One violation: the field (dotted path), why, and what could be meant instead."""

    field: str | None = None
    reason: str
    candidates: tuple[str, ...] | None = None

    @classmethod
    def of(cls, detail: Detail) -> Self:
        """Take a detail of a CallError."""
        return cls(field=detail.field, reason=detail.reason, candidates=detail.candidates or None)


class ErrorData(Model):
    """A machine code, a plain message, and whether the same request can succeed later."""

    code: Code
    message: str
    retryable: Bool
    details: tuple[ErrorDetail, ...] = ()


class Failure(Result):
    """The data of a failed result; `nodeName` only with the code Uninitialized."""

    provider_id: str | None = None
    node_name: str | None = None
    last_known_state: str | None = None
    error: ErrorData

    @classmethod
    def of(cls, error: CallError) -> Self:
        """Say what a CallError says."""
        return cls(
            provider_id=error.provider_id or None,
            node_name=error.node_name if error.code is Code.UNINITIALIZED else None,
            last_known_state=error.last_known_state,
            error=ErrorData(
                code=error.code,
                message=error.message,
                retryable=error.code.retryable,
                details=tuple(map(ErrorDetail.of, error.details)),
            ),
        )


class Progress(Model):
    """The data of a progress event; `attempt`, `code`, `nextAttempt` when a try failed and one follows."""

    step: str
    percent: Annotated[Int, Field(ge=0, le=100)] | None = None
    message: str
    last_known_state: str | None = None
    attempt: Int | None = None
    code: Code | None = None
    next_attempt: datetime | None = None
