"""`vsphere-functions dlq` on a real server with a real worker."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
from typing import TYPE_CHECKING, Any

import pytest
from nats.aio.client import Client
from typer.testing import CliRunner, Result

from support.commands import BASE
from support.functions import SPEC, World, request
from support.jetstream import on, producer, until, working
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.cli.commands import app
from vsphere_functions.cli.dlq import removed
from vsphere_functions.hosts.dead_letters import DeadLetters
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.runtime.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vsphere_events.cloud_event import CloudEvent
    from vsphere_functions.hosts.dead_letters import Row
    from vsphere_functions.local.nats_server import NatsServer
    from vsphere_functions.runtime.settings import Settings

SECRET = "do-not-show"
POISON = b'{"password": "do-not-show"'


def event() -> CloudEvent:
    """A create with secrets in the places where they may stand."""
    spec = {**SPEC, "vapp": {"properties": {"adminPassword": SECRET}}}
    data = {"machineName": "m-1", "providerSpec": spec, "secrets": {"userData": SECRET}}
    return request(data=data, extensions={"bootstraptoken": SECRET})


@pytest.fixture
def env(nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that the commands find."""
    for name in BASE.keys() ^ os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("VSPHERE_FUNCTIONS_NATS__URL", nats_server.url)


@pytest.fixture
def configured(nats_server: NatsServer) -> Settings:
    return on(nats_server, attempts=1)


@pytest.fixture
def dead(nats_server: NatsServer, configured: Settings, env: None) -> CloudEvent:
    """A request that was given up; before it, poison."""
    one = event()

    async def play() -> None:
        world = World(failures=[CallError(Code.UNAVAILABLE, "away")])
        async with producer(nats_server, configured) as p, working(configured, world):
            subject = "vsphere.request.default.delete_machine"
            await p.raw(subject, POISON, {"X-Cookie": SECRET, "X-Trace": "\x1b[2Jseen"})
            await until(lambda: len(p.on("dead")) == 1, 60)
            await p.publish(one)
            await until(lambda: len(p.on("dead")) == 2, 60)
            await p.settled(60)

    del env
    asyncio.run(play())
    return one


def dlq(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(app, ["dlq", *arguments], input=stdin)


def listed(*options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(dlq("list", "--json", *options).stdout)
    return rows


def audit(said: Result) -> list[dict[str, Any]]:
    """The lines of the audit, without what every line has; the same user ran all of it."""
    lines = [json.loads(line) for line in said.stderr.splitlines() if line.startswith("{")]
    for line in lines:
        assert (line.pop("event"), line.pop("level")) == ("audit", "info")
        assert line.pop("timestamp")
    return lines


def test_letters_are_listed_and_shown_without_secrets(dead: CloudEvent) -> None:
    rows = listed()
    assert [(row["letter"], row["id"], row["code"], row["attempts"]) for row in rows] == [
        (1, None, "InvalidArgument", 1),
        (2, dead.id, "Unavailable", 1),
    ]
    assert listed("--function", "create_machine") == rows[1:]
    assert listed("--older-than", "1d") == []
    table = dlq("list").stdout.splitlines()
    assert table[0].split() == list(rows[0])
    assert len(table) == 3
    assert f"create_machine  default  {dead.id}" in table[2]
    shown = dlq("show", dead.id, "1")
    assert shown.exit_code == 0
    assert SECRET not in shown.stdout
    readable, poison = json.loads("[" + shown.stdout.replace("\n}\n{\n", "\n},\n{\n") + "]")
    assert readable["event"]["data"]["secrets"] == {"userData": "********"}
    assert readable["event"]["data"]["providerSpec"]["network"] == "net"
    assert readable["reason"] == "away"
    assert poison["event"]["bytes"] == len(POISON)
    assert poison["headers"]["X-Cookie"] == "********"
    assert "\x1b" not in shown.stdout


def test_a_request_is_sent_again_and_what_cannot_be_is_said(
    dead: CloudEvent, configured: Settings, nats_server: NatsServer
) -> None:
    """E15, at the shell."""
    again = dlq("redrive", dead.id, "1")
    assert again.exit_code == 1
    assert again.stdout == "letter 2, create_machine: sent again, generation 1\n"
    assert "letter 1, delete_machine: not sent again: nobody can read it: not a CloudEvent" in again.stderr
    who = {"os_user": pwd.getpwuid(os.getuid()).pw_name, "command": "dlq redrive"}
    about = {"function": "create_machine", "source": dead.source, "id": dead.id, "request": dead.id}
    assert audit(again) == [
        {**who, **about, "vcenter": "default", "letter": 2, "code": "OK"},
        {
            **who,
            "function": "delete_machine",
            "vcenter": "default",
            "letter": 1,
            "code": "FailedPrecondition",
        },
    ]
    assert [row["letter"] for row in listed()] == [1]
    missing = dlq("redrive", dead.id)
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert f"no dead letter {dead.id}" in missing.stderr

    async def play() -> None:
        async with producer(nats_server, configured) as p, working(configured, World()):
            await p.settled(60)
            result = await p.stored(dead)
            assert result
            assert (result.id, result.data["nodeName"]) == (f"{dead.id}.result.1", "m-1")

    asyncio.run(play())


def test_letters_are_removed_after_a_question(dead: CloudEvent) -> None:
    def purge(*options: str, stdin: str = "") -> tuple[int, list[str]]:
        said = dlq("purge", *options, stdin=stdin)
        return said.exit_code, said.stdout.splitlines()[-1:]

    for options in ((), ("--all", "1"), ("--older-than", "soon")):
        assert purge(*options)[0] == 2
    assert purge("--all")[0] == 1
    assert "Remove 2 dead letters for good?" in dlq("purge", "--all", stdin="n\n").stderr
    assert "Remove 1 dead letter for good?" in dlq("purge", "1", stdin="n\n").stderr
    assert purge("--all", stdin="n\n")[0] == 1
    assert len(listed()) == 2
    assert purge("--function", "create_machine", stdin="y\n") == (0, ["1 removed"])
    assert purge(dead.id, "--yes")[0] == 1
    assert purge("--all", "--older-than", "0s", "--yes")[0] == 2
    said = dlq("purge", "1", "--yes")
    assert (said.exit_code, said.stdout) == (0, "1 removed\n")
    (line,) = audit(said)
    assert (line["command"], line["letter"], line["code"]) == ("dlq purge", 1, "OK")
    assert SECRET not in said.stderr
    assert "there are no dead letters" in dlq("list").stderr


class Lost(DeadLetters):
    """Letters of which nobody can say any more whether they were removed."""

    async def remove(self, numbers: Sequence[int]) -> set[int]:
        raise StoreError(f"no answer about {numbers}")


def test_the_audit_tells_also_of_what_may_have_happened_when_nats_was_lost() -> None:
    told: list[tuple[int, Code]] = []

    def audit(row: Row, code: Code) -> None:
        told.append((row["letter"], code))

    async def play() -> None:
        await removed(Lost(Calls(Client())), [{"letter": 1}, {"letter": 2}], audit)

    with pytest.raises(StoreError):
        asyncio.run(play())
    assert told == [(1, Code.UNKNOWN), (2, Code.UNKNOWN)]


def test_without_a_server_or_a_stream_the_reason_is_given(nats_server: NatsServer, env: None) -> None:
    del env
    said = dlq("list")
    assert (said.exit_code, said.stderr) == (
        1,
        "vsphere-functions: a stream is missing, or elects its leader just now; if that lasts, run setup\n",
    )
    nats_server.stop()
    said = dlq("list")
    assert said.exit_code == 1
    assert "NATS at" in said.stderr
