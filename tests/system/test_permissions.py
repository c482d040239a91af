"""The permissions of the guide for operators are enough, and none of them too many."""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nats.errors import TimeoutError as NatsTimeoutError
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from support.functions import World, request
from support.jetstream import Producer, on, until, working
from vsphere_events.client import Client, SyncClient
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.cli.commands import app
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_permissions import users
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.examples import example
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.stack import Stack
from vsphere_functions.runtime.settings import Nats, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "operators.md"
USERS = ("setup", "worker", "producer", "operator")


def configuration() -> str:
    """The guide's block, with passwords."""
    block: str
    (block,) = re.findall(r"^```conf\n(.*?)^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return "".join(f"{user.upper()}_PASSWORD: {user}-secret\n" for user in USERS) + block


@contextmanager
def stack_with(permissions: str) -> Iterator[Stack]:
    """The stack on a server with such permissions, set up by one user and worked on by another."""
    stack = Stack(sections={"nats": {"user": "setup", "password": "setup-secret"}})
    (stack.nats.home / "nats.conf").write_text(permissions)
    with stack:
        own = stack.config.read_text().replace("setup", "worker")
        stack.config.write_text(own.replace("[nats]", '[nats]\ninbox_prefix = "_INBOX_worker"'))
        stack.start_worker()
        yield stack


@pytest.fixture
def producer() -> dict[str, Any]:
    return {"user": "producer", "password": "producer-secret", "inbox_prefix": "_INBOX_producer"}


def test_they_are_enough_for_machines(vcsim_binary: Path, producer: dict[str, Any]) -> None:
    assert vcsim_binary.is_file()
    with stack_with(configuration()) as stack, SyncClient(stack.nats.url, **producer) as client:
        with client.send("create_machine", example("create_machine")) as pending:
            assert next(iter(pending)).step == "clone"
            made = pending.result()
        assert client.list_all_machines(example("list_machines")).machine_list == {
            str(made.provider_id): "worker-1"
        }
        assert client.get_machine_status(example("get_machine_status")).provider_id == made.provider_id
        client.shut_down_machine(example("shut_down_machine"))
        assert client.delete_machine(example("delete_machine")).provider_id == made.provider_id
        assert "ermissions" not in stack.nats.log.replace("with permissions", "")


def test_the_guide_grants_an_operator_all_that_the_generated_files_do() -> None:
    def covered(subject: str) -> bool:
        return any(
            re.fullmatch(re.escape(one).replace(r"\*", r"[^.]+").replace(">", ".+"), subject) for one in said
        )

    (operator,) = (one for one in users(["default"]) if one.name == "operator")
    said = re.findall(r'"(.*?)"', configuration().partition("{user: operator,")[2])
    assert [one for one in (*operator.publish, *operator.subscribe) if not covered(one)] == [
        "_INBOX_operator.>"
    ]


def test_a_list_needs_the_direct_get_of_many(vcsim_binary: Path, producer: dict[str, Any]) -> None:
    assert vcsim_binary.is_file()
    less = configuration().replace('"$JS.API.DIRECT.GET.KV_vsphere_identities"\n', "\n")
    with stack_with(less) as stack, SyncClient(stack.nats.url, **producer) as client:
        with pytest.raises(CallError) as raised:
            client.list_machines(example("list_machines"))
        assert raised.value.code is Code.UNAVAILABLE


def test_a_producer_reads_and_asks_no_more_than_its_own(producer: dict[str, Any]) -> None:
    def refused(client: Client, subject: str) -> bool:
        return subject.lower() in str(client.connection.last_error)

    async def work(url: str) -> None:
        async with Client.connected(url, **producer) as client:
            for subject in (
                "$JS.API.STREAM.MSG.GET.VSPHERE_RESULTS",
                "$JS.API.DIRECT.GET.VSPHERE_RESULTS.vsphere.result.blue.list_machines.x",
                "vsphere.result.default.list_machines.x",
            ):
                with pytest.raises(NatsTimeoutError):
                    await client.connection.request(subject, timeout=0.2)
                await until(partial(refused, client, subject), 60)

    with NatsServer(config=configuration()) as server:
        asyncio.run(work(server.url))


def test_a_producer_that_may_not_publish_is_told_so(
    producer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsphere_events.client.storing._ACK_SECONDS", 0.3)
    with (
        NatsServer(config=configuration()) as server,
        SyncClient(server.url, vcenter="blue", **producer) as client,
        pytest.raises(CallError, match="ermissions") as raised,
    ):
        client.list_machines(example("list_machines"))
    assert raised.value.code is Code.PERMISSION_DENIED


def test_who_may_not_read_dead_letters_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsphere_functions.hosts.dead_letters.Calls", partial(Calls, timeout=0.5))
    with NatsServer(config=configuration()) as server:
        for name, value in {"URL": server.url, "USER": "producer", "PASSWORD": "producer-secret"}.items():
            monkeypatch.setenv(f"VSPHERE_FUNCTIONS_NATS__{name}", value)
        monkeypatch.setenv("VSPHERE_FUNCTIONS_NATS__INBOX_PREFIX", "_INBOX_producer")
        listed = CliRunner().invoke(app, ["dlq", "list"])
    assert listed.exit_code == 1
    assert 'permissions violation for publish to "$js.api.direct.get.vsphere_dead"' in listed.stderr


def test_they_are_enough_for_dead_letters(producer: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, sent again, removed; over the whole way of `dlq redrive`."""

    def user(name: str, prefix: str) -> Settings:
        section = Nats(
            url=(server.url,), user=name, password=SecretStr(f"{name}-secret"), inbox_prefix=prefix
        )
        return on(server, attempts=1).model_copy(update={"nats": section})

    async def dies_and_comes_back() -> None:
        event, world = request(), World(failures=[CallError(Code.UNAVAILABLE, "away")])
        async with (
            Client.connected(server.url, **producer) as client,
            working(user("worker", "_INBOX_worker"), world),
        ):
            one = Producer(client.connection)
            await one.publish(event)
            await until(partial(sent_again, event.id), 60)
            await until(lambda: world.effects, 60)

    async def sent_again(event_id: str) -> bool:
        return (await asyncio.to_thread(dlq, "redrive", event_id)).exit_code == 0

    def dlq(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["dlq", *arguments])

    with NatsServer(config=configuration()) as server:
        setup(user("setup", "_INBOX"))
        for name, value in {"URL": server.url, "USER": "operator", "PASSWORD": "operator-secret"}.items():
            monkeypatch.setenv(f"VSPHERE_FUNCTIONS_NATS__{name}", value)
        asyncio.run(dies_and_comes_back())
        assert dlq("purge", "--all", "--yes").stdout == "0 removed\n"
        assert "ermissions" not in server.log.replace("with permissions", "")
