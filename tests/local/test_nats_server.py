"""The embedded NATS server: ready when started, the same after a restart."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING

import nats
import pytest

from vsphere_functions.local.children import start
from vsphere_functions.local.nats_server import NatsServer

if TYPE_CHECKING:
    from pathlib import Path


async def publish(url: str, text: str) -> None:
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="WORDS", subjects=["words"])
    await stream.publish("words", text.encode())
    await client.close()


async def last(url: str) -> str:
    client = await nats.connect(url)
    message = await client.jetstream().get_last_msg("WORDS", "words")
    await client.close()
    return (message.data or b"").decode()


def test_jetstream_answers_as_soon_as_the_server_is_started(nats_server: NatsServer) -> None:
    asyncio.run(publish(nats_server.url, "one"))
    assert asyncio.run(last(nats_server.url)) == "one"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_keeps_port_and_store(nats_server: NatsServer, how: str) -> None:
    url = nats_server.url
    asyncio.run(publish(url, "one"))
    getattr(nats_server, how)()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", nats_server.port), timeout=30)
    nats_server.restart()
    assert nats_server.url == url
    assert asyncio.run(last(url)) == "one"


def test_a_store_of_ones_own_outlives_the_server(tmp_path: Path) -> None:
    with NatsServer(store=tmp_path) as server:
        asyncio.run(publish(server.url, "one"))
        port = server.port
    with NatsServer(store=tmp_path, port=port) as server:
        assert server.port == port
        assert asyncio.run(last(server.url)) == "one"


def test_the_text_of_a_configuration_is_obeyed() -> None:
    with NatsServer(config="max_payload: 1000") as server:

        async def limit() -> int:
            client = await nats.connect(server.url)
            found = client.max_payload
            await client.close()
            return found

        assert asyncio.run(limit()) == 1000


def test_a_configuration_that_is_wrong_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="did not start"),
        NatsServer(config="max_payload: {", store=tmp_path),
    ):
        pass


def test_no_child_is_started_by_a_thread_that_could_end_before_it() -> None:
    refused: list[RuntimeError] = []

    def attempt() -> None:
        try:
            start(["true"])
        except RuntimeError as error:
            refused.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(refused) == 1
