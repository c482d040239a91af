"""A request's turn among those for the same machine or volume."""

import asyncio
from collections.abc import Awaitable

from vsphere_events.orphan import OrphanMachine
from vsphere_functions.runtime.dispatch import Call
from vsphere_functions.runtime.leases import together
from vsphere_functions.runtime.order import Identity, Role, ordered
from vsphere_functions.runtime.store import Bucket, Entry, Store, write_over
from vsphere_functions.runtime.unfinished import Making, goes_on


async def announce(making: Making, call: Call, sequence: int | None) -> bool:
    """Take a request's turn, and note that a machine is being made; without its turn it is not."""
    work: list[Awaitable[object]] = [take_turn(making.store, call, sequence)]
    if makes := call.makes:
        work.append(making.begun(*makes, call.address.key))
    came, *_ = await together(*work)
    if not came and makes:  # or the removal that it waits for would wait for it
        await making.ended(*makes, call.address.key)
    return bool(came)


async def take_turn(store: Store, call: Call, sequence: int | None) -> bool:
    """Check a request's place and remember it; false while a create has to wait for an earlier removal to end.

    A removal that has begun may have changed something, and nobody but itself can say what: a create between two of
    its tries would get the rest of it refused. Over HTTP there is no sequence, and no order.
    """
    if sequence is None:
        return True
    if call.role is Role.SWEEPS:
        await _sweep(store, call, sequence)
    return await _take(store, call.identities[0], call, call.role, sequence)


async def _sweep(store: Store, call: Call, sequence: int) -> None:
    """Take the turn of each that is to be deleted, when none is refused; the owner's machines together have no order.

    Not of what is being made: a sweep spares it, and its create would be taken back as one that was overtaken. Of
    several creates of a machine the identity knows the last one, the notes all that have not ended.
    """
    doomed, keys = call.request.delete, call.identities[1:]
    making = Making(store, asyncio.get_running_loop(), call.host)
    spared = await making.begun_by(str(call.request.provider_spec.owner))
    entries = [await store.get(Bucket.IDENTITIES, key) for key in keys]
    known = [Identity.load(entry and entry.value) for entry in entries]
    for one in known:
        ordered(one, Role.REMOVES, sequence, call.address.key, incarnation=False)
    for orphan, key, one in zip(doomed, keys, known, strict=True):
        made = isinstance(orphan, OrphanMachine) and orphan.machine in spared
        if not made and not (one.creator and await goes_on(store, one.creator)):
            await _take(store, key, call, Role.REMOVES, sequence)


async def _take(store: Store, key: str, call: Call, role: Role, sequence: int) -> bool:
    entry: Entry | None = None
    while True:
        known = Identity.load(entry and entry.value)
        now = ordered(known, role, sequence, call.address.key, incarnation=call.incarnation).dump()
        if role is Role.CREATES and known.remover and await goes_on(store, known.remover):
            return False
        # Most are new: whether this one is, the write tells. It is written even when it says the same: what was read
        # may be old, and a write is refused then.
        written = await write_over(store, Bucket.IDENTITIES, key, now, entry)
        if written is not None:
            return True
        entry = await store.get(Bucket.IDENTITIES, key)
