"""Run a function: one that answers at once, or a generator of steps."""

from collections.abc import Callable, Generator
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime import telemetry
from vsphere_functions.steps import Step


class Interrupted(BaseException):
    """The try ends here through no fault of the function: a shutdown, or the operation is no longer ours."""


def drive(function: Callable[[Any, Any], Any], request: Any, ctx: Any, took: Callable[[Step], None]) -> Any:
    """Run `function(request, ctx)` to its result, telling `took` of each step.

    A CallError of `took` (Canceled, DeadlineExceeded) is raised at the step, where the function can undo what is
    unfinished; Interrupted closes the function as it stands. A CallError leaves with the last step's state; any
    other exception becomes Internal, logged here and nowhere else.
    """
    state: str | None = None
    try:
        outcome = function(request, ctx)
        if not isinstance(outcome, Generator):
            return outcome
        step = next(outcome)
        while True:
            state = step.state
            step = _onward(outcome, step, took)
    except StopIteration as end:
        return end.value
    except CallError as error:
        error.last_known_state = error.last_known_state or state
        raise
    except Exception:  # noqa: BLE001 - whatever a function lets out, its caller gets a code
        telemetry.log().exception("function failed unexpectedly")
        raise CallError(
            Code.INTERNAL, "an unexpected error; the log of the worker has it", last_known_state=state
        ) from None


def _onward(steps: Generator[Step, None, Any], step: Step, took: Callable[[Step], None]) -> Step:
    try:
        took(step)
    except CallError as error:
        return steps.throw(error)
    except Interrupted:
        steps.close()
        raise
    return next(steps)
