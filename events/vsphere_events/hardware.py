"""The hardware of a machine, as a provider spec describes it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from vsphere_events.model import Int, Model

_LEVELS = ("low", "normal", "high")
_MOST = 1_000_000


def zero_is_absent(number: int | None) -> int | None:
    """Take a size of 0 for none."""
    return number or None


def whole_pages(mib: int | None) -> int | None:
    """Demand what vSphere demands of a memory size."""
    if mib and mib % 4:
        raise ValueError("should be a multiple of 4 MiB")
    return mib or None


def _shares(given: Any) -> str | int:
    if given in _LEVELS and isinstance(given, str):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= _MOST:
        return given
    raise ValueError(f"should be low, normal, high, or a number from 1 to {_MOST}")


Gibibytes = Annotated[Int, Field(ge=1, le=63488)]
Shares = Annotated[
    str | int,
    PlainValidator(_shares),
    WithJsonSchema({"anyOf": [{"enum": list(_LEVELS)}, {"type": "integer", "minimum": 1, "maximum": _MOST}]}),
]


class SystemDisk(Model):
    """The first disk; `size` in GiB, not smaller than the template's (0: the template's size)."""

    size: Annotated[Int | None, Field(ge=0, le=63488), AfterValidator(zero_is_absent)] = None


class DataDisk(Model):
    """An empty disk that the machine is born with and deleted with; `size` in GiB.

    It lies where the machine lies.
    """

    size: Gibibytes
    provisioning: Literal["thin", "thick", "eagerZeroedThick"] = "thin"


class Allocation(Model):
    """A part of a host's CPU (MHz) or memory (MiB) that is kept for the machine, or the most that it gets.

    A limit of -1 is none. `shares` weigh machines against each other when there is too little.
    """

    reservation: Annotated[Int | None, Field(ge=0, le=2**31 - 1)] = None
    limit: Annotated[Int | None, Field(ge=-1, le=2**31 - 1), AfterValidator(zero_is_absent)] = None
    shares: Shares | None = None

    @classmethod
    def across(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Demand a limit that leaves room for the reservation."""
        limit, reservation = given["limit"], given["reservation"]
        if isinstance(limit, int) and isinstance(reservation, int) and 0 < limit < reservation:
            yield "limit", "is below the reservation"
