"""Three NATS servers on loopback that hold every stream three times."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from typing import Self

from nats.aio.client import Client
from nats.errors import Error as NatsError

from vsphere_functions.local.nats_server import NatsServer

NODES = 3
HEALTHY_SECONDS = 60
_CONFIG = """
server_name: node-{number}
lame_duck_duration: "30s"
cluster {{
  name: chaos
  listen: "127.0.0.1:{port}"
  no_advertise: true
  routes: [{routes}]
}}
"""


class Cluster:
    """The nodes, within a `with`; they are started and stopped from the main thread."""

    def __init__(self) -> None:
        ports = _free_ports(2 * NODES)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports[NODES:])
        self.nodes = [
            NatsServer(
                port=ports[number],
                config=_CONFIG.format(number=number, port=ports[NODES + number], routes=routes),
            )
            for number in range(NODES)
        ]
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        with self._cleanup:
            for node in self.nodes:
                self._cleanup.enter_context(node)
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    @property
    def urls(self) -> list[str]:
        """Where clients connect that nothing is to come between."""
        return [node.url for node in self.nodes]

    async def healthy(self) -> None:
        """Wait until every node says that it has all of its streams; an operator does no less before the next one."""
        deadline = time.monotonic() + HEALTHY_SECONDS
        while not await asyncio.to_thread(lambda: all(_is_healthy(node) for node in self.nodes)):
            if time.monotonic() > deadline:
                raise RuntimeError("the NATS cluster does not become healthy")
            await asyncio.sleep(0.1)

    async def leader_of(self, stream: str) -> int | None:
        """Name the node that leads a stream; None while there is none."""
        client = Client()
        try:
            with suppress(NatsError, OSError):
                await client.connect(self.urls, connect_timeout=2, max_reconnect_attempts=1)
                info = await client.jetstream(timeout=2).stream_info(stream)
                if info.cluster and info.cluster.leader:
                    return int(info.cluster.leader.rpartition("-")[2])
        finally:
            await client.close()
        return None

    def freeze(self, number: int) -> None:
        """Stop a node as a machine that hangs."""
        self._tell(number, signal.SIGSTOP)

    def thaw(self, number: int) -> None:
        """Let it go on."""
        self._tell(number, signal.SIGCONT)

    def _tell(self, number: int, what: signal.Signals) -> None:
        if pid := self.nodes[number].pid:
            os.kill(pid, what)


def _is_healthy(node: NatsServer) -> bool:
    try:
        with urllib.request.urlopen(f"{node.monitor_url}/healthz", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_ports(count: int) -> list[int]:
    """Take them all at once, so that they differ."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in taken]
    finally:
        for one in taken:
            one.close()
