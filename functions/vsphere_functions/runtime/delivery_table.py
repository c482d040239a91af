"""What becomes of a delivery, as a Markdown table made by asking the function that decides it."""

from collections.abc import Iterator

from vsphere_events.code import Code
from vsphere_functions.runtime.delivery import (
    Bury,
    Case,
    Dead,
    Decision,
    Done,
    Leave,
    Outcome,
    Retry,
    Trouble,
    Wait,
    decide,
)
from vsphere_functions.runtime.settings import Limits

_HEAD = (
    "| what happened | a function that reads | one that changes something | its last try |",
    "|---|---|---|---|",
)
_WORDS = {Done: "result", Dead: "dead letter and failed result", Bury: "dead letter", Leave: "left alone"}
_LIMITS = Limits()


def delivery_table() -> str:
    """Render a row for each group of codes and each reason to wait or to refuse."""
    return "\n".join((*_HEAD, *_rows())) + "\n"


def _rows() -> Iterator[str]:
    for codes in _alike():
        reads = _words(decide(codes[0], Case(_LIMITS, changes=False)))
        yield _row(", ".join(codes), reads, _tries(codes[0]), _words(_last(codes[0])))
    for wait in Wait:
        first, longest = _waiting(wait, 0), _waiting(wait, _LIMITS.busy_seconds - 1)
        yield _row(
            wait.value, "-", first if first == longest else f"{first}, later {longest}", _waiting(wait, 10**6)
        )
    for trouble in Trouble:
        reads = _words(decide(trouble, Case(_LIMITS, changes=False)))
        yield _row(trouble.value, reads, _words(decide(trouble, Case(_LIMITS))), _words(_last(trouble)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _alike() -> list[tuple[Code, ...]]:
    """Group the codes of which the decisions are the same."""
    groups: dict[str, tuple[Code, ...]] = {}
    for code in Code:
        same = f"{_tries(code)} {_words(_last(code))}"
        groups[same] = (*groups.get(same, ()), code)
    return list(groups.values())


def _last(outcome: Outcome) -> Decision:
    return decide(outcome, Case(_LIMITS, attempt=_LIMITS.attempts))


def _tries(code: Code) -> str:
    """Name the pauses of all tries but the last."""
    decisions = [decide(code, Case(_LIMITS, attempt=n)) for n in range(1, _LIMITS.attempts)]
    pauses = [f"{one.delay:g}" for one in decisions if isinstance(one, Retry)]
    return f"again after {', '.join(pauses)} s" if pauses else _words(decisions[0])


def _waiting(wait: Wait, waited: float) -> str:
    return _words(decide(wait, Case(_LIMITS, waited=waited)))


def _words(decision: Decision) -> str:
    if not isinstance(decision, Retry):
        return _WORDS[type(decision)]
    when = f"after {decision.delay:g} s" if decision.delay else "at once"
    return f"again {when}" + ("" if decision.counts else ", no try")
