"""How Knative delivers an event: its data-plane specification, and what its own senders make of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vsphere_events.envelope import Mode, from_http, to_http

if TYPE_CHECKING:
    import httpx

    from support.http_host import HttpHost
    from vsphere_events.cloud_event import CloudEvent


class Verdict(Enum):
    """What a status means to a sender."""

    DONE = "delivered"
    AGAIN = "sent again"
    DEAD = "to the dead letters"


def by_specification(status: int) -> Verdict:
    """knative/specs, eventing data plane: what it does not name is to be sent again; 1xx and 3xx are errors."""
    if 200 <= status < 300:
        return Verdict.DONE
    if status < 400:
        return Verdict.DEAD
    return Verdict.AGAIN if status in {404, 409, 429} or status >= 500 else Verdict.DEAD


def by_eventing(status: int) -> Verdict:
    """The senders of Knative Eventing, which the in-memory channel and the broker on channels use."""
    return Verdict.AGAIN if status == 408 else by_specification(status)


def by_eventing_natss(status: int) -> Verdict:
    """The broker on JetStream: another 4xx than 408 and 429 is given up at once, without a dead letter."""
    if 200 <= status < 300:
        return Verdict.DONE
    return Verdict.AGAIN if status in {408, 429} or status >= 500 else Verdict.DEAD


SENDERS = (by_specification, by_eventing, by_eventing_natss)


@dataclass(frozen=True)
class Delivery:
    """What became of an event: the statuses of all attempts, and what goes back into the broker."""

    statuses: tuple[int, ...]
    verdict: Verdict
    reply: CloudEvent | None


def deliver(host: HttpHost, event: CloudEvent, mode: Mode, retries: int) -> Delivery:
    """Deliver as a trigger does, without its pauses: POST that prefers a reply, until it is done or given up."""
    statuses: list[int] = []
    for _ in range(1 + retries):
        headers, body = to_http(event, mode)
        answer = host.client.post("/", headers={**headers, "Prefer": "reply"}, content=body)
        statuses.append(answer.status_code)
        verdict = by_eventing(answer.status_code)
        if verdict is Verdict.DONE:
            return Delivery(tuple(statuses), verdict, replied(answer))
        if verdict is Verdict.DEAD:
            break
    return Delivery(tuple(statuses), Verdict.DEAD, None)


def replied(answer: httpx.Response) -> CloudEvent | None:
    """Read the reply as the broker does: only that of a 200 counts, and a body that is no event is a failure."""
    if answer.status_code != 200:
        assert not answer.content, "what comes with another 2xx is never looked at"
        return None
    return (
        from_http(answer.headers, answer.content).event
        if answer.content or "ce-id" in answer.headers
        else None
    )
