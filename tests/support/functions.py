"""Small functions with effects that a test can see, in place of the real ones; and requests for them."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import (
    Address,
    CreateMachineRequest,
    CreateMachineResult,
    DeleteMachineRequest,
    DeleteMachineResult,
)
from vsphere_events.subjects import Kind, event_type
from vsphere_functions.context import Context
from vsphere_functions.runtime import dispatch
from vsphere_functions.runtime.attempt import perform
from vsphere_functions.runtime.connections import sessions_of
from vsphere_functions.runtime.perform import Delivery, Desk, Ending, Tell
from vsphere_functions.runtime.settings import Limits, Settings, VCenter
from vsphere_functions.runtime.store import MemoryStore, Store
from vsphere_functions.steps import Step, Steps

UUID = "422e4956-ad22-1139-6d72-59cc8f26bc90"
TAGS = {"mcm.gardener.cloud/cluster": "shoot--demo--a", "mcm.gardener.cloud/role": "node"}
SPEC = {
    "region": "eu-1",
    "datacenter": "DC0",
    "computeCluster": "DC0_C0",
    "datastore": "ds",
    "templateVM": "template",
    "network": "net",
    "tags": TAGS,
}
_ids = itertools.count(1)


@dataclass
class World:
    """What the functions change: machines by name; `before` runs between two steps of a create."""

    machines: set[str] = field(default_factory=set)
    effects: list[str] = field(default_factory=list)
    seen_states: list[str | None] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    between: Callable[[Context], Any] = lambda _: None
    state: str = "ready"
    addresses: tuple[Address, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def create_machine(self, request: CreateMachineRequest, ctx: Context) -> Steps[CreateMachineResult]:
        self.seen_states.append(request.last_known_state)
        self._fail()
        if request.machine_name not in self.machines:
            ctx.fence.check()
            with self.lock:
                self.machines.add(request.machine_name)
                self.effects.append(f"create {request.machine_name}")
        yield Step("clone", "cloned", f"cloned {request.machine_name}", 50)
        self.between(ctx)
        yield Step("power_on", "on", "powered on", 90)
        return CreateMachineResult(
            provider_id=f"vsphere://eu-1/{UUID}",
            node_name=request.machine_name,
            last_known_state=self.state,
            addresses=self.addresses,
        )

    def delete_machine(self, request: DeleteMachineRequest, ctx: Context) -> Steps[DeleteMachineResult]:
        self._fail()
        ctx.fence.check()
        if request.machine_name in self.machines:
            self.machines.discard(request.machine_name)
            self.effects.append(f"delete {request.machine_name}")
        yield Step("destroy", "destroyed", "destroyed")
        return DeleteMachineResult()

    def get_machine_status(self, request: Any, ctx: Context) -> Any:
        del request, ctx
        self._fail()
        raise CallError(Code.NOT_FOUND, "no such machine")

    def catalogue(self) -> dict[str, Callable[[Any, Any], Any]]:
        return {
            "create_machine": self.create_machine,
            "delete_machine": self.delete_machine,
            "get_machine_status": self.get_machine_status,
        }

    def undos(self) -> dict[str, Callable[[Any, Any], Any]]:
        return {}

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def settings(**limits: Any) -> Settings:
    vcenter = VCenter(url="https://127.0.0.1:9/sdk", user="u", password="p")
    given = {"retry_seconds": 0.1, "budget_seconds": 20.0} | limits
    return Settings(vcenters={"default": vcenter}, limits=Limits(**given))


def request(function: str = "create_machine", name: str = "m-1", **attributes: Any) -> CloudEvent:
    data = {"machineName": name, "providerSpec": SPEC if function == "create_machine" else {"tags": TAGS}}
    given: dict[str, Any] = {
        "id": f"req-{next(_ids)}",
        "source": "/producers/test",
        "type": event_type(function, Kind.REQUEST),
        "data": data,
    }
    return CloudEvent(**(given | attributes))


def address(event: CloudEvent, function: str = "create_machine") -> dispatch.Address:
    return dispatch.Address(FUNCTIONS[function], "default", event)


@contextmanager
def desk(world: World, *, store: Store | None = None, lease: float = 2, **limits: Any) -> Iterator[Desk]:
    configured = settings(**limits)
    with ThreadPoolExecutor(8) as pool:
        yield Desk(
            name="worker-a",
            settings=configured,
            catalogue=world.catalogue(),
            sessions=sessions_of(configured),
            store=store or MemoryStore(),
            pool=pool,
            lease=lease,
        )


async def performed(
    one: Desk, where: dispatch.Address, delivery: Delivery, tell: Tell = lambda _: None
) -> Ending:
    """Perform a request, and wait for what goes on beside it: its leases are let go of."""
    try:
        return await perform(one, where, delivery, tell)
    finally:
        await asyncio.gather(*one.background)
