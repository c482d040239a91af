"""The one exception of the bundle: a code, a plain message and where to look."""

from collections.abc import Sequence
from dataclasses import dataclass

from vsphere_events.code import Code

_TOLD = 3  # details in one line


@dataclass(frozen=True, slots=True)
class Detail:
    """One violation: the field it is about (dotted path), why, and what could be meant instead."""

    reason: str
    field: str | None = None
    candidates: tuple[str, ...] = ()


class CallError(Exception):
    """A call that failed: its code, message, details, and what a caller needs to resume.

    `str()` renders Gardener's one-line form with the first details; there, brackets are balanced, since its
    decoder counts them. `message` stays as it was given.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        details: Sequence[Detail] = (),
        provider_id: str | None = None,
        node_name: str | None = None,
        last_known_state: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.provider_id = provider_id
        self.node_name = node_name
        self.last_known_state = last_known_state

    def __str__(self) -> str:
        """Render `machine codes error: code = [X] message = [Y]` (Gardener, machine codes, status).

        Y is the message and the first details. These hold names of the request, so a log has the message alone.
        """
        return f"machine codes error: code = [{self.code}] message = [{_balanced(self._whole())}]"

    def _whole(self) -> str:
        """Return the message with what it does not say yet of the details: where, and why."""
        more = [one for one in self.details if one.reason not in self.message]
        told = [f"{one.field}: {one.reason}" if one.field else one.reason for one in more[:_TOLD]]
        if len(more) > _TOLD:
            told.append(f"and {len(more) - _TOLD} more")
        return f"{self.message}: {'; '.join(told)}" if told else self.message


def _balanced(text: str) -> str:
    """Turn unmatched square brackets into round ones."""
    out, opened = list(text), list[int]()
    for at, char in enumerate(text):
        if char == "[":
            opened.append(at)
        elif char == "]":
            if opened:
                opened.pop()
            else:
                out[at] = ")"
    for at in opened:
        out[at] = "("
    return "".join(out)
