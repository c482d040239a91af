"""The audit: who had what done, on what, with which code; and what a log line cannot be made to look like."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog

from support.functions import TAGS, UUID, World, address, desk, performed, request
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.perform import Delivery

SECRET = "swordfish-canary"
WHO = {"authtype": "service_account", "authid": "system:serviceaccount:garden:mcm"}
OWNER = "shoot--demo--a/node"


class Log:
    """What goes to stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._text = ""

    @property
    def text(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    telemetry.configure()
    yield Log(capsys)
    structlog.reset_defaults()


def lines(log: Log) -> list[dict[str, Any]]:
    """The audit's lines, without their time."""
    told = [json.loads(line) for line in log.text.splitlines()]
    return [{k: v for k, v in one.items() if k != "timestamp"} for one in told if one["event"] == "audit"]


def handle(world: World, *events: CloudEvent, **limits: Any) -> None:
    """Perform requests on one desk, one after the other."""

    async def run() -> None:
        with desk(world, **limits) as one:
            for event in events:
                await performed(one, address(event, event.type.split(".")[2]), Delivery())

    asyncio.run(run())


def test_a_request_that_changes_something_is_told_with_who_asked_what_and_the_outcome(
    log: Log,
) -> None:
    event = request(id="req-1", extensions=WHO)
    handle(World(), event)
    assert lines(log) == [
        {
            "event": "audit",
            "level": "info",
            "request": "req-1",
            "function": "create_machine",
            "vcenter": "default",
            "source": "/producers/test",
            "id": "req-1",
            **WHO,
            "subject": "m-1",
            "owner": OWNER,
            "provider_id": f"vsphere://eu-1/{UUID}",
            "code": "OK",
            "replayed": False,
        }
    ]


def test_a_refusal_and_a_failure_are_told_with_their_code(log: Log) -> None:
    bad = request(
        "delete_machine", data={"machineName": "m-1", "providerSpec": {"tags": TAGS}, "nope": SECRET}
    )
    handle(World(failures=[CallError(Code.PERMISSION_DENIED, "no")]), bad, request("delete_machine"))
    assert [one["code"] for one in lines(log)] == ["InvalidArgument", "PermissionDenied"]
    assert [(one["subject"], one["owner"]) for one in lines(log)] == [("m-1", OWNER)] * 2
    assert not {"authid", "authtype", "provider_id"} & lines(log)[0].keys()


def test_a_request_that_is_tried_again_is_told_once_at_its_end(log: Log) -> None:
    event = request("delete_machine")
    passing: list[Exception] = [CallError(Code.UNAVAILABLE, "away") for _ in range(2)]
    handle(World(failures=passing), event, event, event)
    assert [one["code"] for one in lines(log)] == ["OK"]


def test_a_repeated_request_is_told_as_a_replay_and_anothers_id_as_refused(log: Log) -> None:
    event = request("delete_machine")
    handle(World(), event, event, replace(event, source="/another"))
    told = [(one["source"], one["code"], one["replayed"]) for one in lines(log)]
    assert told == [
        ("/producers/test", "OK", False),
        ("/producers/test", "OK", True),
        ("/another", "InvalidArgument", False),
    ]


def test_what_changes_nothing_is_not_told(log: Log) -> None:
    handle(World(), request("get_machine_status"))
    assert lines(log) == []


def test_no_secret_and_no_claim_is_told_and_long_names_are_cut(log: Log) -> None:
    event = request(extensions={**WHO, "authid": "a" * 1000, "authclaims": SECRET})
    given = {
        **event.data,
        "secrets": {"userData": SECRET, "vspherePassword": SECRET},
        "nope": {SECRET: SECRET},
    }
    handle(World(), replace(event, data=given))
    assert len(lines(log)[0]["authid"]) == 256
    assert SECRET not in log.text


HOSTILE = ["a\u202eb", "a\u2028b", "\U000e0041", "a\u200bb", '"},{"event":"audit"', "é", "\\n\\u001b[2J"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_producer_writes_ends_a_line_or_moves_a_cursor(log: Log, text: str) -> None:
    handle(World(), request(id=text, source=f"/{text}".replace("\u2028", ""), extensions={"authid": text}))
    (line,) = log.text.splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert lines(log)[0]["authid"] == text


@pytest.mark.parametrize("text", [*HOSTILE, "a\nb", "a\x00b", "a\x1b[31mb", "a\x7fb", "a\x9bb", "\ud800"])
def test_not_even_what_no_event_can_carry_does(log: Log, text: str) -> None:
    telemetry.log().warning("x", reason=text, names=[text], **{text: text})
    (line,) = log.text.splitlines()
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["reason"] == text


def test_an_exception_is_told_without_its_message(log: Log) -> None:
    handle(World(failures=[ValueError(SECRET)]), request("delete_machine"))
    assert "ValueError" in log.text
    assert SECRET not in log.text
