"""The main job on a stack of its own, as a producer sees it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from vsphere_events.client import Client, result_of
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.demo_show import STEPS, DemoError, expect, shown, tell
from vsphere_functions.local.demo_volume import volume_story
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Stack, interruptible
from vsphere_functions.local.tools import ensure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from vsphere_events.cloud_event import CloudEvent
    from vsphere_functions.local.vcenter import SimulatedVCenter

NAMES = ("worker-0", "worker-1", "worker-2")
# The simulator does everything at once, and a bar that jumps shows nothing.
DELAYS_MS = {"CloneVm": 1000, "ReconfigVm": 400, "PowerOn": 600, "PowerOff": 400, "Destroy": 400}

_WRONG = {
    "network": "no-such-network",
    "templateVM": "templates/none",
    "datastore": "none",
    "folder": "nowhere",
}


def demo() -> int:
    """Create, look at and delete machines and a volume; 1 when anything is not as promised."""
    console = Console(highlight=False, soft_wrap=True)
    started = time.monotonic()
    ensure("vcsim", "govc")
    try:
        with interruptible(), Stack() as stack:
            worker = stack.start_worker()
            console.print(f"NATS      {stack.nats.url}")
            console.print(f"vCenter   {stack.vcenter.url} (simulated)")
            console.print(f"worker    ready after {time.monotonic() - started:.1f} s")
            before = inventory(stack.vcenter)
            stack.vcenter.control.delay(**DELAYS_MS)
            try:
                asyncio.run(main_job(stack, console))
                compare(console, before, inventory(stack.vcenter))
            except (CallError, DemoError) as error:
                console.print(f"\n[red]{error}[/red]\nThe worker's log ends:\n{worker.tail()}", markup=True)
                return 1
    except KeyboardInterrupt:
        return 130
    console.print(f"everything is stopped; {time.monotonic() - started:.1f} s in all")
    return 0


async def main_job(stack: Stack, console: Console) -> None:
    """Do what a producer does with machines and a volume, one after the other."""
    async with Client.connected(stack.nats.url, source="/producers/demo") as client:
        console.rule("three machines are created, and listed meanwhile", align="left")
        made = await on_all(client, console, "create_machine", meanwhile=partial(list_early, client, console))
        console.rule("their status", align="left")
        await look(client, console, made)
        console.rule("the list of them", align="left")
        await list_all(client, console, made)
        console.rule("a request that is sent twice", align="left")
        await repeat(client, console, made[NAMES[0]])
        machines = count(stack.vcenter)
        console.print(f"machines by govc: {machines}")
        expect(machines == len(NAMES), "there should be three machines")
        console.rule("a request that is not valid", align="left")
        await refuse(client, console)
        console.rule("one is shut down", align="left")
        await shut_down(client, console, NAMES[0])
        console.rule("they are deleted", align="left")
        await on_all(client, console, "delete_machine")
        stack.vcenter.control.delay(**dict.fromkeys(DELAYS_MS, 0))
        await volume_story(client, console, stack.vcenter)


async def on_all(
    client: Client, console: Console, function: str, meanwhile: Callable[[], Awaitable[None]] | None = None
) -> dict[str, CloudEvent]:
    """Send a request for each machine at once; their result events by name, none of them failed.

    `meanwhile` is done as soon as something has been heard of each.
    """
    heard = {name: asyncio.Event() for name in NAMES}

    async def aside() -> None:
        await asyncio.gather(*(one.wait() for one in heard.values()))
        if meanwhile:
            await meanwhile()

    with shown(console, STEPS[function], NAMES) as show:

        async def send(name: str) -> CloudEvent:
            async with client.send(
                function, example(function, name), id=f"demo-{function}-{name}"
            ) as pending:
                async for said in pending:
                    show(name, said)
                    heard[name].set()
                heard[name].set()
                return await pending.event()

        listening = asyncio.create_task(aside())
        events = dict(zip(NAMES, await asyncio.gather(*map(send, NAMES)), strict=True))
        await listening
    for event in events.values():
        tell(console, event)
        result_of(function, event)
    return events


async def list_early(client: Client, console: Console) -> None:
    """List while clones run: a machine that is not finished is named, lest it be taken for an orphan."""
    found = await client.list_all_machines(example("list_machines"))
    console.print(f"listed: {', '.join(found.machine_list.values()) or 'none'}", markup=False)
    console.print(f"in creation: {', '.join(found.creating) or 'none'}", markup=False)
    expect(bool(found.creating), "machines should be in creation")
    named = {*found.machine_list.values(), *found.creating}
    expect(named == set(NAMES), "each machine should be listed or in creation")


async def list_all(client: Client, console: Console, made: dict[str, CloudEvent]) -> None:
    """List in pages of two, once all stand."""
    found = await client.list_all_machines(example("list_machines") | {"pageSize": 2})
    for provider_id, name in found.machine_list.items():
        console.print(f"{name}  {provider_id}")
    expect(
        found.machine_list == {event.data["providerID"]: name for name, event in made.items()}, "all three"
    )
    expect(not found.creating, "none should be in creation any more")


async def shut_down(client: Client, console: Console, name: str) -> None:
    """Shut a machine down, and ask for its status."""
    with shown(console, STEPS["shut_down_machine"], [name]) as show:
        await client.shut_down_machine(example("shut_down_machine", name), on_progress=partial(show, name))
    status = await client.get_machine_status(example("get_machine_status", name))
    console.print(f"{name}  {status.phase}  {status.power_state}")
    expect(status.phase == "Stopped", f"{name} should be stopped")


async def look(client: Client, console: Console, made: dict[str, CloudEvent]) -> None:
    """Ask for each machine, by the providerID that its creation gave."""
    for name, event in made.items():
        data = example("get_machine_status", name) | {"providerID": event.data["providerID"]}
        status = await client.get_machine_status(data)
        console.print(f"{name}  {status.phase}  {status.power_state}  {status.provider_id}")
        expect(status.phase == "Running", f"{name} should be running")


async def repeat(client: Client, console: Console, first: CloudEvent) -> None:
    """Send a create again, under its id and under another: no second machine, and no second answer."""
    data = example("create_machine", NAMES[0])
    async with client.send("create_machine", data, id=str(first.extension("causationid"))) as pending:
        again = await pending.event()
    console.print(f"under the same id: {again.id} of {again.time}, the answer that was stored")
    expect(again == first, "the stored answer should come again")
    other = await client.create_machine(data)
    console.print(f"under another id:  {other.provider_id}, the machine that is there")
    expect(str(other.provider_id) == first.data["providerID"], "it should be the same machine")


async def refuse(client: Client, console: Console) -> None:
    """Send a create with several mistakes: they are told all at once, and nothing is cloned."""
    data = example("create_machine", "worker-3")
    try:
        await client.create_machine({**data, "providerSpec": data["providerSpec"] | _WRONG})
    except CallError as error:
        console.print(f"{error.code}: {error.message}")
        for one in error.details:
            known = f" (there are {', '.join(one.candidates)})" if one.candidates else ""
            console.print(f"  {one.field}: {one.reason}{known}", markup=False)
        expect(error.code is Code.INVALID_ARGUMENT, "it should be InvalidArgument")
        expect(len(error.details) >= len(_WRONG), "every mistake should be told")
        return
    raise DemoError("a request that is not valid was taken")


def inventory(vcenter: SimulatedVCenter) -> list[str]:
    """List all paths of the inventory, as an independent client sees it."""
    found: Any = vcenter.govc("find", "/")
    return sorted(found.splitlines())


def count(vcenter: SimulatedVCenter) -> int:
    """Count the machines of the demo, as an independent client sees them."""
    return len(vcenter.govc("find", "/", "-type", "m", "-name", "worker-*").split())


def compare(console: Console, before: list[str], after: list[str]) -> None:
    """Show that the vCenter is as it was."""
    console.rule("the vCenter afterwards", align="left")
    for path in sorted(set(before) ^ set(after)):
        console.print(f"{'-' if path in before else '+'} {path}", markup=False)
    expect(before == after, "the vCenter should be as before")
    console.print(f"as before: govc finds the same {len(after)} objects")
