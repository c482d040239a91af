"""What is there at the end: in the streams, in the records, in the vCenter and on its datastores."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js.errors import NotFoundError
from pyVmomi import vim

from chaos.schedule import Asked
from chaos.site import STORE, Site
from support.machines import vms
from support.soap import Soap
from vsphere_events.subjects import result_subject
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket

MACHINES = "/DC0/vm/demo/machines"
CALM_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Standing:
    """A VM in the folder of the machines."""

    uuid: str
    power: str


@dataclass
class Found:
    """The state of everything; `answers` are the messages of the results stream by token, `heard` those on the wire.

    `changes` are those of the vCenter in their order: who held what, of which things, by which method.
    """

    machines: dict[str, list[Standing]] = field(default_factory=dict)
    other_vms: list[str] = field(default_factory=list)
    volumes: dict[str, set[str]] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    answers: dict[str, list[bytes]] = field(default_factory=dict)
    heard: dict[str, set[bytes]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    dead: int = 0
    waiting: int = 0
    leases: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)


class Witness:
    """A connection that nothing comes between: hears every result, and reads what is stored."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._js = client.jetstream(timeout=5)
        self.heard: dict[str, set[bytes]] = {}

    @classmethod
    @asynccontextmanager
    async def connected(cls, site: Site) -> AsyncIterator[Witness]:
        """Connect and listen."""
        client = await nats.connect(
            site.cluster.urls, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=_quiet
        )
        try:
            one = cls(client)
            await client.subscribe("vsphere.result.>", cb=one._hear)
            yield one
        finally:
            await client.close()

    async def calm(self) -> int:
        """Wait until no request is left in its stream; how many are left after a while."""
        deadline = time.monotonic() + CALM_SECONDS
        while waiting := await self._persistently(self._waiting):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        return int(waiting)

    async def leases(self) -> list[str]:
        """Wait until every lease is let go or has run out; those that are left after a while."""
        deadline = time.monotonic() + CALM_SECONDS / 2
        while left := await self._persistently(self._held):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        return list(left)

    async def answers(self, asked: Asked) -> list[bytes]:
        """Read all that the results stream has for a request."""
        subject = result_subject("default", asked.function, asked.id)
        info = await self._persistently(lambda: self._js.stream_info(RESULTS, subjects_filter=subject))
        count = (info.state.subjects or {}).get(subject, 0)
        if not count:
            return []
        last = await self._persistently(lambda: self._js.get_last_msg(RESULTS, subject))
        return [b""] * (count - 1) + [last.data or b""]

    async def record(self, asked: Asked) -> Record | None:
        """Read the record of a request."""
        key = f"$KV.{Bucket.OPERATIONS}.default.{asked.id}"
        try:
            message = await self._persistently(lambda: self._js.get_last_msg(f"KV_{Bucket.OPERATIONS}", key))
        except NotFoundError:
            return None
        return Record.load(message.data or b"")

    async def dead(self) -> int:
        """Count the dead letters."""
        return int((await self._persistently(lambda: self._js.stream_info(DEAD))).state.messages)

    async def _waiting(self) -> int:
        return int((await self._js.stream_info(REQUESTS)).state.messages)

    async def _held(self) -> list[str]:
        """Name the keys that have a value; a deleted one is a marker without."""
        stream = f"KV_{Bucket.LEASES}"
        info = await self._js.stream_info(stream, subjects_filter=">")
        found = []
        for subject in info.state.subjects or {}:
            try:
                message = await self._js.get_last_msg(stream, subject)
            except NotFoundError:
                continue  # it has run out meanwhile
            if message.data:
                found.append(f"{subject} {message.data.decode()}")
        return found

    async def _persistently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask until JetStream answers: after the last blow there may be an election yet."""
        deadline = time.monotonic() + CALM_SECONDS
        while True:
            try:
                return await ask()
            except NotFoundError:
                raise
            except (NatsError, TimeoutError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def _hear(self, message: Msg) -> None:
        if not message.subject.endswith(".self-check"):
            self.heard.setdefault(message.subject.rpartition(".")[2], set()).add(message.data)


async def _quiet(_error: Exception) -> None:
    """Say nothing: what it does to a look shows there."""


def look_at_vcenter(site: Site, found: Found) -> None:
    """Fill in what stands in the vCenter and lies on its datastores."""
    found.machines, found.other_vms = {}, []
    with Soap(site.vcenter) as soap:
        for path in vms(site.vcenter):
            if path.rpartition("/")[0] != MACHINES:
                found.other_vms.append(path)
        children = soap.read(soap.find(MACHINES), "childEntity")["childEntity"]
        for one in children:
            if not isinstance(one, vim.VirtualMachine):
                continue
            row = soap.read(one, "name", "config.uuid", "runtime.powerState")
            standing = Standing(row["config.uuid"], row["runtime.powerState"])
            found.machines.setdefault(row["name"], []).append(standing)
    found.files, found.volumes = _files(site), _volumes(site)
    found.changes = site.changes.read_text().splitlines()


def _home(site: Site) -> Path:
    assert site.vcenter.home is not None
    return site.vcenter.home


def _files(site: Site) -> set[str]:
    """Name all files and folders below the datastores, those of the volumes' store left out."""
    home = _home(site)
    return {
        str(file.relative_to(home))
        for file in home.glob("*/**/*")
        if "vols" not in file.relative_to(home).parts
    }


def _volumes(site: Site) -> dict[str, set[str]]:
    stores = list(_home(site).glob(f"*/{STORE}"))
    return {
        folder.name: {file.name for file in folder.iterdir()} if folder.is_dir() else set()
        for store in stores
        for folder in store.iterdir()
    }


def let_claims_grow_old(site: Site) -> None:
    """Date the claims of creates that were given up an hour back: until then nobody else may touch their volumes."""
    for file in _home(site).glob(f"*/{STORE}/*/claim.json"):
        told = json.loads(file.read_text())
        since = datetime.fromisoformat(told["since"]) - timedelta(hours=1)
        file.write_text(json.dumps(told | {"since": since.isoformat(timespec="seconds")}))
