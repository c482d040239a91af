"""A server beside a distant vCenter: what crosses it, and that it opens nothing."""

from __future__ import annotations

import asyncio
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nats.errors import Error as NatsError

from support.jetstream import until
from support.nats_files import SETUP, WORKER, make_and_delete, refusals, server, settings, stack_on, written
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_setup import setup

if TYPE_CHECKING:
    from vsphere_functions.local.vcenter import SimulatedVCenter

REQUESTS, RESULTS, DEAD = "VSPHERE_REQUESTS", "VSPHERE_RESULTS", "VSPHERE_DEAD"


@pytest.fixture
def folder(tmp_path: Path, shared_vcenter: SimulatedVCenter) -> Path:
    return written(tmp_path, shared_vcenter)


def test_a_worker_beside_a_distant_vcenter_works_over_a_leaf_node(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        server(folder, "leaf.conf", port) as leaf,
        stack_on(server(folder, leaves=port), folder, leaf.url) as stack,
    ):
        make_and_delete(stack, folder)
        assert refusals(stack.nats) + refusals(leaf) == []


def test_a_site_that_is_taken_over_can_do_no_more_than_its_workers(folder: Path) -> None:
    """Whoever holds the leaf node can give its users all permissions there; the hub has its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub, leaf = server(folder, leaves=port), server(folder, "leaf.conf", port)
    own = leaf.home / "leaf-accounts.conf"
    own.write_text(re.sub(r", permissions: \{.*?\n      \}", "", own.read_text(), flags=re.DOTALL))
    allowed = {
        "$KV.vsphere_leases.x": True,
        "$KV.other.x": False,
        f"$JS.API.CONSUMER.INFO.{REQUESTS}.default-create_machine": True,
        f"$JS.API.CONSUMER.INFO.{DEAD}.any": False,
        f"$JS.API.STREAM.INFO.{RESULTS}": False,
        f"$JS.API.STREAM.DELETE.{RESULTS}": False,
        f"$JS.API.DIRECT.GET.{DEAD}": False,
        "vsphere.result.default.create_machine.x": True,
        "vsphere.result.blue.create_machine.x": False,
        "vsphere.dead.default.create_machine": True,
    }

    async def answered(subject: str) -> bool:
        async with connected(settings(folder, WORKER, leaf.url)) as client:
            try:
                await client.request(subject, b"", timeout=0.5, headers={"Nats-Expected-Stream": "none"})
            except NatsError:
                return False
            return True

    async def others() -> None:
        async with connected(settings(folder, SETUP, hub.url)) as client:
            await client.jetstream().add_stream(name="OTHER", subjects=["$KV.other.>"])

    with hub, leaf:
        setup(settings(folder, SETUP, hub.url))
        asyncio.run(others())
        asyncio.run(until(lambda: answered("$KV.vsphere_leases.x"), 60))
        assert {subject: asyncio.run(answered(subject)) for subject in allowed} == allowed
