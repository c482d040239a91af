"""Producers and workers on the whole stack."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from support.jetstream import Producer
from vsphere_events.client import Client
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.subjects import request_token, result_subject
from vsphere_functions.local.children import start
from vsphere_functions.local.stack import Stack
from vsphere_functions.runtime.settings import FILE, PREFIX


def producing(stack: Stack, work: Callable[[Producer], Awaitable[Any]]) -> Any:
    """Run a producer that hears every result, dead letter and progress."""

    async def run() -> Any:
        async with Client.connected(stack.nats.url) as client:
            producer = Producer(client.connection)
            await producer.listen()
            return await work(producer)

    return asyncio.run(run())


def data_of(event: CloudEvent) -> dict[str, Any]:
    """The data of a result."""
    assert isinstance(event.data, dict)
    return event.data


async def messages_on(producer: Producer, event: CloudEvent, function: str = "create_machine") -> int:
    """How many messages the results stream keeps for a request."""
    subject = result_subject("default", function, request_token(event.id))
    info = await producer.js.stream_info("VSPHERE_RESULTS", subjects_filter=subject)
    return (info.state.subjects or {}).get(subject, 0)


def dying_worker(stack: Stack, dies_at: str) -> subprocess.Popen[str]:
    """Start a worker of the real functions that kills itself at a step; see support.dying_worker."""
    return start_python(stack, "support.dying_worker", DIES_AT=dies_at)


def start_python(stack: Stack, module: str, **more: str) -> subprocess.Popen[str]:
    """Run a module of the tests in a process that finds the stack by its environment."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    paths = filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")])
    return start(
        [sys.executable, "-m", module],
        env={
            **environ,
            FILE: str(stack.config),
            f"{PREFIX}WORKER__HEALTH_PORT": "0",
            "PYTHONPATH": os.pathsep.join(paths),
            **more,
        },
    )
