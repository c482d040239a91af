"""What vCenter refuses, and what it never answered, as errors of the bundle."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pyVmomi.VmomiSupport import GuessWsdlType

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.fault_table import ANY_STEP, TABLE
from vsphere_functions.vsphere.ref import Ref

_ROOT = "MethodFault"
_LONGEST = 300
_TOLD = {"path": "property", "name": "name", "file": "file", "invalidProperty": "parameter"}
"""Fields of faults that a message tells, with our word for them."""
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{64,}")


class Fault(Exception):  # noqa: N818 - vSphere's own word
    """A fault as the server sent it: its type's name, its localised message and its other fields.

    `str()` gives the name alone; the message has not been cleaned.
    """

    def __init__(self, name: str, message: str = "", fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.message = message
        self.fields = dict(fields or {})

    def is_a(self, name: str) -> bool:
        """Say whether the fault is of that type or of one derived from it."""
        return name in ancestors(self.name)


class NoAnswer(Exception):  # noqa: N818 - it says what happened
    """No usable answer came; `sent` says whether the request can have been carried out.

    `final`: asking again at once is pointless (a certificate that is not trusted).
    """

    def __init__(self, reason: str, *, sent: bool, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent
        self.final = final


@lru_cache(maxsize=1024)
def ancestors(name: str) -> tuple[str, ...]:
    """Return the fault type's name and those of its ancestors, nearest first, up to MethodFault.

    A type that pyVmomi does not know (a newer server's) has MethodFault alone above it.
    """
    try:
        kinds = GuessWsdlType(name).__mro__
    except KeyError:
        return (name, _ROOT)
    names = [kind._wsdlName for kind in kinds if hasattr(kind, "_wsdlName")]  # noqa: SLF001 - its public name there
    return tuple(names[: names.index(_ROOT) + 1]) if _ROOT in names else (name, _ROOT)


def as_call_error(fault: Fault, step: str | None = None, doing: str = "") -> CallError:
    """Read the fault as one of `step`; `doing` is the method, for the message.

    The fault becomes the error's cause, so that `fault_of` finds it whether the error is raised or kept.
    """
    code, words = _entry(fault, step)
    error = CallError(code, _sentence(fault, words, doing))
    error.__cause__ = fault
    return error


def unavailable(lost: NoAnswer, doing: str = "") -> CallError:
    """Say that vCenter gave no answer; `outcome_unknown` tells whether the call may have been carried out."""
    error = CallError(Code.UNAVAILABLE, f"{lost.reason} ({doing})" if doing else lost.reason)
    error.__cause__ = lost
    return error


def fault_of(error: BaseException) -> Fault | None:
    """Return the fault behind an error, with its fields: `fault_of(e).fields["object"]` is a Ref."""
    return error.__cause__ if isinstance(error.__cause__, Fault) else None


def fault_name(error: BaseException) -> str | None:
    """Return the type name of the fault behind an error, such as `DuplicateName`."""
    fault = fault_of(error)
    return fault.name if fault else None


def outcome_unknown(error: BaseException) -> bool:
    """Say whether the call behind this error may have been carried out all the same."""
    return isinstance(error.__cause__, NoAnswer) and error.__cause__.sent


def _entry(fault: Fault, step: str | None) -> tuple[Code, str]:
    """Find the nearest ancestor that the table knows, at the step or at any."""
    places = ((at, name) for name in ancestors(fault.name) for at in (step, ANY_STEP))
    return next(TABLE[place] for place in places if place in TABLE)


def _sentence(fault: Fault, words: str, doing: str) -> str:
    """Put together our words, what is missing or in the way, the server's message and the fault's name."""
    said = "; ".join(part for part in (words, *_particulars(fault), clean(fault.message)) if part)
    return f"{said} ({fault.name} at {doing})" if doing else f"{said} ({fault.name})"


def _particulars(fault: Fault) -> Iterator[str]:
    privilege, held = fault.fields.get("privilegeId"), fault.fields.get("object")
    if privilege:
        yield f"privilege {privilege} is missing"
    if isinstance(held, Ref):
        yield f"object {held.type}:{held.id}"
    for key, word in _TOLD.items():
        if isinstance(fault.fields.get(key), str) and fault.fields[key]:
            yield f"{word} {clean(fault.fields[key])}"


def clean(text: str) -> str:
    """Make a server's text fit for a message: one line, short, without anything that may be encoded user data."""
    line = _ENCODED.sub("…", " ".join(text.split()))
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
