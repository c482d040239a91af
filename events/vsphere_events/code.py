"""The machine codes: what a failed call says, and whether asking again can help."""

from enum import StrEnum


class Code(StrEnum):
    """Machine codes 0 to 17, named and numbered as Gardener's machine contract has them."""

    OK = "OK"
    CANCELED = "Canceled"
    UNKNOWN = "Unknown"
    INVALID_ARGUMENT = "InvalidArgument"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    NOT_FOUND = "NotFound"
    ALREADY_EXISTS = "AlreadyExists"
    PERMISSION_DENIED = "PermissionDenied"
    RESOURCE_EXHAUSTED = "ResourceExhausted"
    FAILED_PRECONDITION = "FailedPrecondition"
    ABORTED = "Aborted"
    OUT_OF_RANGE = "OutOfRange"
    UNIMPLEMENTED = "Unimplemented"
    INTERNAL = "Internal"
    UNAVAILABLE = "Unavailable"
    DATA_LOSS = "DataLoss"
    UNAUTHENTICATED = "Unauthenticated"
    UNINITIALIZED = "Uninitialized"

    @property
    def number(self) -> int:
        """The number of the code, 0 to 17."""
        return list(Code).index(self)

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later with nothing changed by the caller."""
        return self in _SOON or self is Code.RESOURCE_EXHAUSTED


_SOON = frozenset({Code.UNKNOWN, Code.DEADLINE_EXCEEDED, Code.ABORTED, Code.UNAVAILABLE})
