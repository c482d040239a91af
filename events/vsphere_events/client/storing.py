"""A request is sent when its stream has confirmed it."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, to_nats
from vsphere_events.error import CallError

_ACK_SECONDS = 5.0
_ACK_TRIES = 3
_ELECTION_SECONDS = 2.0  # while a stream elects its leader nobody answers for it


async def store(connection: Connection, subject: str, event: CloudEvent, mode: Mode, until: float) -> int:
    """Publish until the stream confirms, and return the request's sequence in it.

    Without a message id of the stream, or a wanted resend would be swallowed.

    FailedPrecondition when no stream takes it, Unavailable when none confirms, PermissionDenied when the server
    forbids it, InvalidArgument when it is too big.
    """
    headers, body = to_nats(event, mode)
    _check_size(headers, body, connection.max_payload)
    clock, silent = asyncio.get_running_loop().time, 0
    elected = clock() + _ELECTION_SECONDS
    while True:
        try:
            answer = await connection.request(subject, body, timeout=_ACK_SECONDS, headers=headers)
        except NoRespondersError:
            if clock() > elected:
                raise _nobody(subject) from None
            await asyncio.sleep(0.2)
        except NatsTimeoutError:
            if subject in str(connection.last_error):  # a violation is told beside, and there is no answer
                raise CallError(Code.PERMISSION_DENIED, str(connection.last_error)) from None
            silent += connection.is_connected  # an outage says nothing about the stream
            if silent == _ACK_TRIES or clock() > until:
                raise CallError(Code.UNAVAILABLE, f"NATS does not confirm a request on {subject}") from None
        else:
            return _stored(answer, subject)


def _check_size(headers: Mapping[str, str], body: bytes, limit: int) -> None:
    """Refuse what the server would cut the connection for."""
    size = len(body) + sum(len(name) + len(value) + 4 for name, value in headers.items()) + 12
    if size > limit:
        raise CallError(
            Code.INVALID_ARGUMENT, f"a request of {size} bytes is over the server's limit of {limit}"
        )


def _stored(answer: Msg, subject: str) -> int:
    said: Any = None
    with suppress(ValueError):
        said = json.loads(answer.data)
    if isinstance(said, dict) and isinstance(error := said.get("error"), dict):
        code = Code.INVALID_ARGUMENT if error.get("code") == 400 else Code.UNAVAILABLE
        raise CallError(code, f"NATS does not store the request: {error.get('description')}")
    if not isinstance(said, dict) or "stream" not in said:
        raise _nobody(subject)
    return int(said.get("seq", 0))


def _nobody(subject: str) -> CallError:
    return CallError(
        Code.FAILED_PRECONDITION,
        f"no stream takes {subject}, so nothing was stored: the function or the vCenter is unknown there, "
        "or `vsphere-functions setup` has not run",
    )
