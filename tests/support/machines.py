"""Machines made and unmade by the functions themselves, on a simulated vCenter."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from pyVmomi import vim

from support.gateway import endpoint
from support.soap import Soap
from vsphere_events.machine import (
    CreateMachineRequest,
    CreateMachineResult,
    DeleteMachineRequest,
    DeleteMachineResult,
    GetMachineStatusRequest,
    GetMachineStatusResult,
    InitializeMachineRequest,
    InitializeMachineResult,
    ListMachinesRequest,
    ListMachinesResult,
    ShutDownMachineRequest,
    ShutDownMachineResult,
    ValidateMachineRequest,
    ValidateMachineResult,
)
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.machine.delete_machine import delete_machine
from vsphere_functions.machine.get_machine_status import get_machine_status
from vsphere_functions.machine.initialize_machine import initialize_machine
from vsphere_functions.machine.list_machines import list_machines
from vsphere_functions.machine.shut_down_machine import shut_down_machine
from vsphere_functions.machine.validate_machine import validate_machine
from vsphere_functions.steps import Step
from vsphere_functions.vsphere.identity import MARK, Mark, instance_uuid
from vsphere_functions.vsphere.sessions import Credentials, Sessions

TAGS = {"mcm.gardener.cloud/cluster": "shoot--demo--a", "mcm.gardener.cloud/role": "node"}
OTHERS = {"mcm.gardener.cloud/cluster": "shoot--demo--b", "mcm.gardener.cloud/role": "node"}
OWNER = "shoot--demo--a/node"
SPEC: dict[str, Any] = {
    "region": "eu-1",
    "datacenter": "DC0",
    "computeCluster": "DC0_C0",
    "folder": "demo/machines",
    "datastore": "we ird (1)",
    "templateVM": "templates/ubuntu-24.04",
    "network": "DC0_DVPG0",
    "numCpus": 2,
    "memory": 4096,
    "systemDisk": {"size": 20},
    "tags": TAGS,
}


@contextmanager
def at(vcenter: SimulatedVCenter, port: int | None = None, **more: Any) -> Iterator[Context]:
    """A context on the vCenter, or on the proxy before it at `port`; `more` are fields of the context."""
    sessions = Sessions(
        {"default": lambda: Credentials(endpoint(vcenter, port), vcenter.username, vcenter.password)}
    )
    try:
        yield Context("default", sessions, **more)
    finally:
        sessions.close()


def end(steps: Generator[Step, None, Any], taken: list[Step] | None = None) -> Any:
    """Run a function to its result, collecting its steps."""
    while True:
        try:
            step = next(steps)
        except StopIteration as done:
            return done.value
        if taken is not None:
            taken.append(step)


def creation(name: str = "worker-1", state: str | None = None, **spec: Any) -> CreateMachineRequest:
    """A request for a machine; a field of the spec given as None is left out."""
    asked = {key: value for key, value in (SPEC | spec).items() if value is not None}
    return CreateMachineRequest.parse(
        {"machineName": name, "providerSpec": asked, **({"lastKnownState": state} if state else {})}
    )


def create(
    ctx: Context,
    name: str = "worker-1",
    taken: list[Step] | None = None,
    state: str | None = None,
    **spec: Any,
) -> CreateMachineResult:
    """Create a machine."""
    made: CreateMachineResult = end(create_machine(creation(name, state, **spec), ctx), taken)
    return made


def deletion(name: str = "worker-1", *, tags: Any = None, **more: Any) -> DeleteMachineRequest:
    """A request to delete a machine."""
    return DeleteMachineRequest.parse(
        {"machineName": name, "providerSpec": {"tags": tags or TAGS}, **{k: v for k, v in more.items() if v}}
    )


def delete(
    ctx: Context, name: str = "worker-1", taken: list[Step] | None = None, **more: Any
) -> DeleteMachineResult:
    """Delete a machine."""
    gone: DeleteMachineResult = end(delete_machine(deletion(name, **more), ctx), taken)
    return gone


def status(
    ctx: Context, name: str | None = "worker-1", *, tags: Any = None, **more: Any
) -> GetMachineStatusResult:
    """Ask for a machine's status."""
    data = {"providerSpec": {"tags": tags or TAGS}, **more} | ({"machineName": name} if name else {})
    return get_machine_status(GetMachineStatusRequest.parse(data), ctx)


def vms(vcenter: SimulatedVCenter) -> list[str]:
    """The inventory paths of all VMs, as govc finds them."""
    return sorted(vcenter.govc("find", "/", "-type", "m").split("\n")[:-1])


def info(vcenter: SimulatedVCenter, path: str = "/DC0/vm/demo/machines/worker-1") -> Any:
    """What govc knows of one VM."""
    return vcenter.govc("vm.info", "-json", "-e", path)["virtualMachines"][0]


def extra(vcenter: SimulatedVCenter, path: str = "/DC0/vm/demo/machines/worker-1") -> dict[str, str]:
    """A VM's extraConfig."""
    options: list[dict[str, str]] = info(vcenter, path)["config"]["extraConfig"]
    return {option["key"]: option["value"] for option in options}


def eventually(holds: Callable[[], bool], tries: int = 100) -> None:
    """Look again and again until the condition holds; each look is a call of its own."""
    assert any(holds() for _ in range(tries))


def foreign(vcenter: SimulatedVCenter, name: str = "worker-1", folder: str = "/DC0/vm/demo/machines") -> str:
    """Make a VM that is not ours, and return its path."""
    vcenter.govc(
        *("vm.clone", "-dc", "DC0", "-vm", "/DC0/vm/templates/ubuntu-24.04", "-on=false", "-folder", folder),
        *("-pool", "/DC0/host/DC0_C0/Resources", "-ds", "LocalDS_0", name),
    )
    return f"{folder}/{name}"


def listing(ctx: Context, *, tags: Any = None, **more: Any) -> ListMachinesResult:
    """List machines."""
    spec = {"tags": tags or TAGS, **more.pop("spec", {})}
    return list_machines(ListMachinesRequest.parse({"providerSpec": spec, **more}), ctx)


def shut_down(
    ctx: Context, name: str = "worker-1", taken: list[Step] | None = None, **more: Any
) -> ShutDownMachineResult:
    """Shut a machine down."""
    data = {"machineName": name, "providerSpec": {"tags": TAGS}, **more}
    down: ShutDownMachineResult = end(shut_down_machine(ShutDownMachineRequest.parse(data), ctx), taken)
    return down


def begun_shut_down(ctx: Context, **more: Any) -> Generator[Step, None, ShutDownMachineResult]:
    """A shut-down of worker-1 that has not taken its first step yet."""
    data = {"machineName": "worker-1", "providerSpec": {"tags": TAGS}, **more}
    return shut_down_machine(ShutDownMachineRequest.parse(data), ctx)


def many(soap: Soap, count: int) -> list[str]:
    """Mark VMs of our own making as machines, faster than creating them; their names."""
    tasks = []
    names = [f"many-{number:03}" for number in range(count)]
    for name in names:
        identity = instance_uuid(OWNER, name)
        mark = Mark(OWNER, name, identity, "-", "-", "-", "eu-1", None, "ready")
        option = vim.option.OptionValue(key=MARK, value=str(mark))
        tasks.append(soap.start_clone(name, instanceUuid=identity, extraConfig=[option]))
    for task in tasks:
        soap.wait(task)
    return names


def initialize(
    ctx: Context, name: str = "worker-1", state: str | None = None, **spec: Any
) -> InitializeMachineResult:
    """Finish a half-built machine."""
    data = creation(name, state, **spec).wire()
    made: InitializeMachineResult = end(initialize_machine(InitializeMachineRequest.parse(data), ctx))
    return made


def validate(ctx: Context, name: str = "worker-1", **spec: Any) -> ValidateMachineResult:
    """Ask what a create would be refused for."""
    asked = {key: value for key, value in (SPEC | spec).items() if value is not None}
    data = {"machineName": name, "providerSpec": asked}
    return validate_machine(ValidateMachineRequest.parse(data), ctx)
