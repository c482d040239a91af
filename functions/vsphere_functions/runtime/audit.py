"""Who had what done: a line of the log for each request that changes something and has come to its end.

Another one for each dead letter that an operator has sent again or removed.
"""

from collections.abc import Mapping
from typing import Any

from vsphere_events import results
from vsphere_events.code import Code
from vsphere_events.subjects import request_token
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.dispatch import Address
from vsphere_functions.runtime.operations import Foreign
from vsphere_functions.runtime.perform import Ending, Finished

EVENT = "audit"
_LONGEST = 256  # characters of what the producer has written
_WHO = ("authtype", "authid")  # CloudEvents' auth context; its authclaims may hold more than a log should


def audit(address: Address, ending: Ending) -> None:
    """Write the line; one of a request that is put off, or that another worker goes on with, comes later.

    `authtype` and `authid` are what the event says. `replayed` marks an answer that was given before: a worker that is
    killed before its line leaves it to that one.
    """
    if not isinstance(ending, Finished | Foreign):
        return
    event, finished = address.event, ending if isinstance(ending, Finished) else None
    answer = finished.result.data if finished and isinstance(finished.result.data, dict) else {}
    about = finished.result.subject if finished else results.subject_of(address.function.name, event, {})
    said = {
        "source": event.source,
        "id": event.id,
        **{name: event.extension(name) for name in _WHO},
        "subject": about,
        "owner": results.owner_in(event.data),
        "provider_id": answer.get("providerID"),
    }
    telemetry.log().info(
        EVENT,
        code=answer.get("error", {}).get("code", Code.OK) if finished else Code.INVALID_ARGUMENT,
        replayed=finished is not None and finished.replayed,
        **_cut(said),
    )


def audit_command(command: str, who: Mapping[str, str | None], letter: Mapping[str, Any], code: Code) -> None:
    """Write the line of a command about a dead letter, a row of their list; Unknown when NATS was lost over it."""
    event_id = letter["id"]
    said = {
        **who,
        **{name: letter[name] for name in ("function", "vcenter", "source", "id")},
        "request": event_id and request_token(event_id),
    }
    telemetry.log().info(EVENT, command=command, letter=letter["letter"], code=code, **_cut(said))


def _cut(said: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(text)[:_LONGEST] for name, text in said.items() if text is not None}
