"""From an HTTP request to the address of a call, or a refusal that echoes nothing."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from vsphere_events.envelope import Mode, from_http
from vsphere_events.error import CallError
from vsphere_events.subjects import parse_event_type
from vsphere_functions.hosts.http_answers import Rejected, refusal
from vsphere_functions.runtime.dispatch import Address, address_of, check_address
from vsphere_functions.runtime.settings import Settings

LARGEST = 1 << 20
"""Bytes of a request's body: what NATS takes by default, so that both hosts take the same."""

_LONGEST_NAMES = 4096  # characters of id and source: each result carries them more than once


async def receive(request: Request, function: str | None, settings: Settings) -> tuple[Address, Mode]:
    """Read an event for a function, or for the one that its type names; Rejected with the answer.

    A type that the target does not serve is refused and leaves no record: the id stays free for the right target.
    """
    try:
        async with asyncio.timeout(settings.http.receive_seconds):
            body = await _body(request)
    except TimeoutError:
        raise Rejected(refusal(408, "the body did not arrive in time", {"Connection": "close"})) from None
    try:
        received = from_http(request.headers, body)
        event = received.event
        label = event.extension("vcenter") or "default"
        address = address_of(function or parse_event_type(event.type)[0], label, event)
        check_address(address)
    except CallError as error:
        raise Rejected(refusal(400, error.message)) from None
    if len(event.id) + len(event.source) > _LONGEST_NAMES:
        raise Rejected(refusal(400, "id and source are too long to be answered"))
    if label not in settings.vcenters:
        message = "no vCenter is configured under the name in the extension vcenter (default without one)"
        raise Rejected(refusal(400, message))
    return address, received.mode


async def _body(request: Request) -> bytes:
    """Read the body, and stop as soon as it is too long."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > LARGEST:
        raise _too_long()
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST:
                raise _too_long()
    except ClientDisconnect:
        raise Rejected(refusal(400, "the body ended early")) from None
    return bytes(body)


def _too_long() -> Rejected:
    return Rejected(refusal(413, f"the body is over {LARGEST} bytes"))
