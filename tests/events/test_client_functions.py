"""A method for each function of the contract, of the client for asyncio and of that for plain scripts."""

import asyncio
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from nats.aio.client import Client as Connection

from support.answering import RESULTS, Answer, publish, responder, streams
from vsphere_events.client import Client, SyncClient
from vsphere_events.client.sync import Loop, inside
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import Mode
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import ListMachinesResult
from vsphere_events.model import Result
from vsphere_events.subjects import parse_event_type
from vsphere_functions.local.examples import EXAMPLES
from vsphere_functions.local.nats_server import NatsServer


@contextmanager
def answered(server: NatsServer, answer: Answer) -> Iterator[None]:
    """The streams of all functions, and somebody who answers."""
    with Loop() as loop, inside(loop, streams(server, *FUNCTIONS)) as connection:
        loop.run(responder, connection, answer)
        yield


@pytest.mark.parametrize("kind", [Client, SyncClient])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_there_is_a_method_for_the_function_that_gives_its_model(name: str, kind: type) -> None:
    method = getattr(kind, name)
    annotations = inspect.get_annotations(method)
    assert annotations["return"] is FUNCTIONS[name].result
    assert inspect.iscoroutinefunction(method) == (kind is Client)
    assert method.__doc__ == getattr(Client, name).__doc__


def test_each_method_asks_its_function_and_gives_its_result(nats_server: NatsServer) -> None:
    asked: list[tuple[str, Any]] = []

    async def answer(connection: Connection, event: CloudEvent) -> None:
        function, _ = parse_event_type(event.type)
        asked.append((function, event.data))
        await publish(connection, event, RESULTS[function])

    async def ask_all() -> dict[str, Result]:
        async with Client.connected(nats_server.url, mode=Mode.BINARY) as client:
            return {name: await getattr(client, name)(EXAMPLES[name]) for name in FUNCTIONS}

    with answered(nats_server, answer):
        assert asyncio.run(ask_all()) == RESULTS
        with SyncClient(nats_server.url) as client:
            assert {name: getattr(client, name)(EXAMPLES[name]) for name in FUNCTIONS} == RESULTS
    assert asked == list(EXAMPLES.items()) * 2


PAGES = {
    None: ListMachinesResult(
        machine_list={"vsphere://a": "one", "vsphere://b": "two"},
        creating=("new",),
        copies=("copy",),
        next_page_token="vsphere://b",
    ),
    "vsphere://b": ListMachinesResult(
        machine_list={"vsphere://c": "three"}, creating=("newer", "new"), next_page_token="vsphere://c"
    ),
    "vsphere://c": ListMachinesResult(machine_list={"vsphere://d": "four"}, unknown=("who",)),
}


def test_all_pages_of_a_list_are_one_list(nats_server: NatsServer) -> None:
    asked: list[dict[str, Any]] = []

    async def answer(connection: Connection, event: CloudEvent) -> None:
        asked.append(event.data)
        await publish(connection, event, PAGES[event.data.get("pageToken")])

    data = EXAMPLES["list_machines"] | {"pageSize": 2}

    async def ask() -> ListMachinesResult:
        async with Client.connected(nats_server.url) as client:
            return await client.list_all_machines(data)

    with answered(nats_server, answer):
        found = asyncio.run(ask())
        with SyncClient(nats_server.url) as client:
            assert client.list_all_machines(data) == found
    assert list(found.machine_list.values()) == ["one", "two", "three", "four"]
    assert found.creating == ("new", "newer"), "a sweep has to spare what any page has seen"
    assert (found.copies, found.unknown, found.next_page_token) == (("copy",), ("who",), None)
    assert asked == [data, data | {"pageToken": "vsphere://b"}, data | {"pageToken": "vsphere://c"}] * 2


def test_a_list_that_has_no_end_ends_with_the_time_given_for_all_of_it(nats_server: NatsServer) -> None:
    async def answer(connection: Connection, event: CloudEvent) -> None:
        token = int(event.data.get("pageToken", 0)) + 1
        await publish(connection, event, ListMachinesResult(machine_list={}, next_page_token=str(token)))

    with answered(nats_server, answer), SyncClient(nats_server.url) as client:
        with pytest.raises(CallError) as raised:
            client.list_all_machines(EXAMPLES["list_machines"], timeout=0.5)
        assert raised.value.code is Code.DEADLINE_EXCEEDED
