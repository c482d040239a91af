"""The answers over HTTP: a result event, a refusal, a wish to be asked again, and what probes hear."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.runtime.operations import Foreign
from vsphere_functions.runtime.perform import Again, Ending, Finished


class _Line(JSONResponse):
    """JSON that ends with a line end, for people at a shell."""

    def render(self, content: Any) -> bytes:
        return super().render(content) + b"\n"


class Rejected(Exception):  # noqa: N818 - it is caught and becomes an answer
    """A request that is answered without being looked at further."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


def answer_to(ending: Ending, mode: Mode) -> Response:
    """Answer what became of a request: 200 for all that is finished, 400 for a used id, else 503."""
    if isinstance(ending, Finished):
        return result(ending.result, mode)
    if isinstance(ending, Foreign):
        return refusal(400, ending.reason)
    if isinstance(ending, Again):
        return later(ending.delay, ending.reason)
    return later(0, "another process works on it")


def result(event: CloudEvent, mode: Mode) -> Response:
    """Answer with a result event, in the mode of its request."""
    headers, body = to_http(event, mode)
    return Response(body, headers=headers)


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Refuse for good; nothing of what was sent goes back."""
    return _error(status, Code.INVALID_ARGUMENT, message, headers)


def later(seconds: float, message: str) -> Response:
    """Ask for another try: 503, since brokers drop 409 and take 404 and 429 each in its own way."""
    return _error(503, Code.UNAVAILABLE, message, {"Retry-After": str(max(1, math.ceil(seconds)))})


def broken() -> Response:
    """Say that the host itself has failed; its log has the reason."""
    return _error(500, Code.INTERNAL, "an unexpected error; the log of the host has it")


def wrong_method(allowed: Sequence[str]) -> Response:
    """Refuse a method."""
    names = ", ".join(allowed)
    return refusal(405, f"taken here: {names}", {"Allow": names})


def leave(origin: str) -> Response:
    """Let a sender deliver, at any rate: what is too much is asked for again by 503."""
    headers = {"WebHook-Allowed-Origin": origin, "WebHook-Allowed-Rate": "*", "Allow": "POST, OPTIONS"}
    return Response(headers=headers)


def alive() -> Response:
    """Tell a probe that the process answers."""
    return _Line({"status": "ok"})


def readiness(problems: Mapping[str, str]) -> Response:
    """Tell a probe whether work can be done: 503 with each part that cannot be used, and why."""
    if not problems:
        return alive()
    return _Line({"status": "not ready", "problems": dict(problems)}, status_code=503)


def _error(status: int, code: Code, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"error": {"code": code, "message": message}}
    return _Line(body, status_code=status, headers=dict(headers or {}))
