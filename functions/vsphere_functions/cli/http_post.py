"""Send an event to the HTTP host and read the event that it answers with."""

import json
import os
import time
import urllib.error
import urllib.request
from email.message import Message

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_events.error import CallError
from vsphere_functions.cli.given import USAGE, fail, load_settings


def post(event: CloudEvent, where: str, seconds: float) -> CloudEvent:
    """Send until there is a result: 503 asks for another try, and the event's id keeps it the same request."""
    headers, body = to_http(event, Mode.STRUCTURED)
    request = urllib.request.Request(where, body, headers, method="POST")  # noqa: S310 - `address` checks it
    until = time.monotonic() + seconds
    while True:
        status, answered, text = _send(request, max(until - time.monotonic(), 0.001))
        if status == 200:
            return from_http(dict(answered), text).event
        pause = float(answered.get("Retry-After", "1"))
        if status != 503 or time.monotonic() + pause > until:
            raise _refusal(status, text)
        time.sleep(pause)


def address() -> str:
    """Name the router: $HTTP_URL, else where the settings say that it listens."""
    if url := os.environ.get("HTTP_URL"):
        if not url.startswith(("http://", "https://")):
            fail("HTTP_URL: should be an http or https URL", USAGE)
        return url
    http = load_settings().http
    return f"http://{http.host}:{http.port}"


def _send(request: urllib.request.Request, seconds: float) -> tuple[int, Message, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:  # noqa: S310 - `address` checks it
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()
    except TimeoutError:
        raise CallError(Code.DEADLINE_EXCEEDED, "no answer in time") from None
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise CallError(Code.UNAVAILABLE, f"{request.full_url}: {reason}") from None


def _refusal(status: int, text: bytes) -> CallError:
    """Read the error that a host answers with in place of a result."""
    try:
        said = json.loads(text)["error"]
        return CallError(Code(said["code"]), str(said["message"]))
    except (ValueError, KeyError, TypeError):
        return CallError(Code.UNKNOWN, f"the HTTP host answers {status}")
