"""Names of a request that would lead somewhere else, in each field that takes a name."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from events.requests import MINIMAL, SPEC, TAGS
from fuzz.targets import SETTINGS
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode, to_nats
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.results import failed
from vsphere_events.subjects import Kind, Subject, event_type, result_subject
from vsphere_functions.runtime.dispatch import Address, dispatch

HOSTILE = [
    *(
        "../../x",
        "..",
        "a/../b",
        "%2e%2e%2fx",
        "a.b.c",
        "a.*",
        ">",
        "a b",
        "a\nb",
        "a\r\nX-Evil: 1",
        "a\x00b",
        "\x1b[2J",
    ),
    *(
        "a\u202eb",
        "[ds] ../x",
        "[ds] a/../b.vmdk",
        "[ds] a/%2e%2E/b.vmdk",
        "[ds] a%5Cb.vmdk",
        "[a] [b] c.vmdk",
        "$(reboot)",
        "`id`",
        "a;b",
        "'\"",
        "\\\\h\\x",
        "\ud800",
    ),
]
PLACES: dict[str, tuple[str, Any]] = {
    "machineName": ("create_machine", lambda text: {"machineName": text}),
    "a delete's machineName": ("delete_machine", lambda text: {"machineName": text}),
    **{
        name: ("create_machine", lambda text, name=name: {"providerSpec": SPEC | {name: text}})
        for name in ("folder", "datastore", "datacenter", "templateVM", "network", "region", "customization")
    },
    "a tag": ("create_machine", lambda text: {"providerSpec": SPEC | {"tags": TAGS | {text: text}}}),
    "the owner": (
        "delete_machine",
        lambda text: {"providerSpec": {"tags": TAGS | {"mcm.gardener.cloud/cluster": text}}},
    ),
    "vmdkPath": ("attach_volume", lambda text: {"id": None, "vmdkPath": text}),
    "mountPath": (
        "create_machine",
        lambda text: {"providerSpec": SPEC | {"volumes": [{"id": "a", "mountPath": text}]}},
    ),
    "store": ("create_volume", lambda text: {"id": "a", "store": text}),
    "id": ("create_volume", lambda text: {"id": text}),
    "selfLink": ("get_volume", lambda text: {"id": None, "selfLink": f"vsphere-volume://default/{text}/a"}),
    "storagePolicy": ("create_volume", lambda text: {"id": "a", "storagePolicy": text}),
    "secretRef": ("delete_machine", lambda text: {"secretRef": text}),
    "providerID": ("delete_machine", lambda text: {"providerID": f"vsphere://{text}"}),
}
NEVER = {"vmdkPath", "mountPath", "store", "id", "selfLink", "secretRef", "providerID"}
"""Places where none of these is a name."""


def outcome(place: str, text: str) -> Any:
    """What a request comes to: a call, or why it is refused."""
    function, put = PLACES[place]
    data = MINIMAL[function] | put(text)
    event = CloudEvent("req-1", "/p", event_type(function, Kind.REQUEST), data)
    try:
        return event, dispatch(Address(FUNCTIONS[function], "default", event), SETTINGS)
    except CallError as error:
        return event, error


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_of_a_request_leads_anywhere(place: str, text: str) -> None:
    """Into no other subject, key, header line or folder; what no name can be is refused before any call."""
    event, came = outcome(place, text)
    if isinstance(came, CallError):
        assert came.code is Code.INVALID_ARGUMENT
    else:
        assert place not in NEVER or text == "a.b.c"
        assert all(re.fullmatch(r"[A-Za-z0-9_.=/-]+", key) for key in came.identities)
    function = PLACES[place][0]
    said = failed(
        function, event, "default", CallError(Code.INTERNAL, "x"), at=datetime(2026, 11, 29, tzinfo=UTC)
    )
    headers, _ = to_nats(said, Mode.BINARY)
    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert str(
        Subject.parse(
            result_subject("default", function, Address(FUNCTIONS[function], "default", event).token)
        )
    )


@pytest.mark.parametrize("text", ["a\nb", "a\r\nX-Evil: 1", "a\x00b", "\x1b[2J", "a\u202eb", "\ud800"])
@pytest.mark.parametrize("place", [one for one in PLACES if one != "a tag"])
def test_no_name_has_a_character_that_ends_a_line_or_turns_a_text(place: str, text: str) -> None:
    _, came = outcome(place, text)
    assert isinstance(came, CallError)
