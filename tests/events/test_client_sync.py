"""The client for plain scripts: a thread of its own, gone with the `with`, whatever happens inside."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from nats.aio.client import Client as Connection

from support.answering import Answer, publish, responder, say, streams
from vsphere_events.client import SyncClient
from vsphere_events.client.sync import Loop, inside
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import DeleteMachineResult
from vsphere_events.outcome import Progress
from vsphere_functions.local.nats_server import NatsServer

DATA = {"machineName": "worker-1", "providerSpec": {"tags": {}}}
OK = DeleteMachineResult(last_known_state="s1")


async def tell_and_succeed(connection: Connection, request: CloudEvent) -> None:
    for number in (1, 2):
        await say(connection, request, number)
    await publish(connection, request, OK)


async def ignore(_connection: Connection, _request: CloudEvent) -> None:
    """Leave the request unanswered."""


@contextmanager
def answered(server: NatsServer, answer: Answer) -> Iterator[None]:
    with Loop() as loop, inside(loop, streams(server)) as connection:
        loop.run(responder, connection, answer)
        yield


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.fixture(autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_progress_is_an_iterator_and_the_result_follows(nats_server: NatsServer) -> None:
    with (
        answered(nats_server, tell_and_succeed),
        SyncClient(nats_server.url, source="/producers/test") as client,
        client.send("delete_machine", DATA, id="one") as pending,
    ):
        assert (pending.request.source, pending.token) == ("/producers/test", "one")
        assert [said.step for said in pending] == ["step-1", "step-2"]
        assert pending.result() == OK
        assert pending.event().id == "one.result"


def test_progress_is_told_in_the_thread_that_asks_which_may_ask_again(nats_server: NatsServer) -> None:
    told: list[tuple[str, threading.Thread]] = []

    with answered(nats_server, tell_and_succeed), SyncClient(nats_server.url) as client:

        def tell(said: Progress) -> None:
            told.append((said.step, threading.current_thread()))
            assert client.delete_machine(DATA) == OK

        assert client.delete_machine(DATA, on_progress=tell) == OK
    assert told == [("step-1", threading.current_thread()), ("step-2", threading.current_thread())]


def test_a_failed_result_is_raised_and_the_client_goes_on(nats_server: NatsServer) -> None:
    async def answer(connection: Connection, request: CloudEvent) -> None:
        wrong = CallError(Code.PERMISSION_DENIED, "no", provider_id="vsphere://eu-1/a")
        await publish(connection, request, wrong if request.id == "bad" else OK)

    with answered(nats_server, answer), SyncClient(nats_server.url) as client:
        with pytest.raises(CallError) as raised:
            client.delete_machine(DATA, id="bad")
        assert (raised.value.code, raised.value.provider_id) == (Code.PERMISSION_DENIED, "vsphere://eu-1/a")
        assert client.delete_machine(DATA, id="good") == OK


def test_a_progress_that_is_not_read_to_its_end_leaves_nothing(nats_server: NatsServer) -> None:
    with answered(nats_server, tell_and_succeed), SyncClient(nats_server.url) as client:
        with client.send("delete_machine", DATA) as pending:
            assert next(iter(pending)).step == "step-1"
        assert client.delete_machine(DATA) == OK


def test_threads_share_a_client(nats_server: NatsServer) -> None:
    with (
        answered(nats_server, tell_and_succeed),
        SyncClient(nats_server.url) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        assert list(threads.map(lambda _: client.delete_machine(DATA), range(24))) == [OK] * 24


def test_whoever_waits_while_another_closes_is_told_so(nats_server: NatsServer) -> None:
    stored = threading.Event()

    async def answer(_connection: Connection, _request: CloudEvent) -> None:
        stored.set()

    with answered(nats_server, answer), ThreadPoolExecutor(1) as threads:
        with SyncClient(nats_server.url) as client:
            waiting = threads.submit(client.delete_machine, DATA)
            assert stored.wait(60)
        with pytest.raises(CallError) as raised:
            waiting.result(10)
        assert raised.value.code is Code.CANCELED


def test_a_call_that_is_taken_in_the_loop_s_last_turn_is_told_so() -> None:
    """Its task is ended before its first step, where nothing of it can catch that."""
    busy, free = threading.Event(), threading.Event()

    def hold() -> None:
        busy.set()
        free.wait(60)

    with ThreadPoolExecutor(2) as threads:
        loop = Loop().__enter__()
        turn: Any = loop._loop
        turn.call_soon_threadsafe(hold)
        assert busy.wait(60)
        waiting = threads.submit(loop.run, asyncio.sleep, 0)
        while len(turn._ready) < 1:
            pass
        closing = threads.submit(loop.__exit__)
        while len(turn._ready) < 2:
            pass
        free.set()
        closing.result(60)
        with pytest.raises(CallError) as raised:
            waiting.result(60)
    assert raised.value.code is Code.CANCELED


def test_a_client_that_is_closed_says_so_and_may_be_opened_again(nats_server: NatsServer) -> None:
    with answered(nats_server, tell_and_succeed):
        with SyncClient(nats_server.url) as client:
            pass
        with pytest.raises(CallError, match="closed"):
            client.delete_machine(DATA)
        with client:
            assert client.delete_machine(DATA) == OK


def test_a_server_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsphere_events.client.client._CONNECT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        pytest.raises(CallError, match="Connect call failed") as raised,
        SyncClient(f"nats://127.0.0.1:{port}"),
    ):
        pass
    assert raised.value.code is Code.UNAVAILABLE


def test_without_patience_a_server_that_is_not_there_is_unavailable_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"nats://127.0.0.1:{port}"
    with pytest.raises(CallError) as raised, SyncClient(url, allow_reconnect=False):
        pass
    assert raised.value.code is Code.UNAVAILABLE


def test_a_server_that_refuses_the_password_is_named_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vsphere_events.client.client._CONNECT_SECONDS", 1.0)
    with (
        NatsServer(config='authorization {user: "u", password: "p"}') as server,
        pytest.raises(CallError, match="Authorization Violation"),
        SyncClient(server.url, user="u", password="wrong"),
    ):
        pass


def test_a_client_whose_server_has_gone_closes_all_the_same(nats_server: NatsServer) -> None:
    with SyncClient(nats_server.url) as client:
        with pytest.raises(CallError) as raised, client.send("delete_machine", DATA):
            pass
        assert raised.value.code is Code.FAILED_PRECONDITION
        nats_server.stop()


def test_an_interrupt_ends_the_waiting_and_the_client_goes_on(nats_server: NatsServer) -> None:
    async def answer(connection: Connection, request: CloudEvent) -> None:
        if request.id == "slow":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            await publish(connection, request, OK)

    with answered(nats_server, answer), SyncClient(nats_server.url) as client:
        with pytest.raises(KeyboardInterrupt):
            client.delete_machine(DATA, id="slow")
        assert client.delete_machine(DATA, id="next") == OK


SCRIPT = """
import sys
from vsphere_events.client import SyncClient

with SyncClient(sys.argv[1]) as client, client.send("delete_machine", {}, id="script") as pending:
    print("stored", flush=True)
    pending.result()
"""


def test_an_interrupted_script_ends_at_once_and_says_nothing_else(nats_server: NatsServer) -> None:
    with answered(nats_server, ignore):
        arguments = [sys.executable, "-X", "dev", "-c", SCRIPT, nats_server.url]
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "stored\n"
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")
    assert said.count("Traceback") == 1
    assert "never" not in said, "neither a task nor a coroutine is left behind"
