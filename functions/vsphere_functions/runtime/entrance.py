"""What a try has to hold before it may work: its record's claim, its leases, a slot under each cap."""

import random
import uuid
from collections.abc import Awaitable
from typing import Any

from vsphere_events.error import CallError
from vsphere_functions.runtime.claims import Held
from vsphere_functions.runtime.delivery import Case, Retry, Wait, decide
from vsphere_functions.runtime.dispatch import Address, Call, refused_digest
from vsphere_functions.runtime.gate import caps_of
from vsphere_functions.runtime.leases import Lease, together
from vsphere_functions.runtime.operations import Admission, Claim, Record, State
from vsphere_functions.runtime.perform import Again, Delivery, Desk, Prepared
from vsphere_functions.runtime.slots import Slots, holder_of
from vsphere_functions.runtime.store import Bucket


class Entrance:
    """Claim, lease and slots of one try."""

    def __init__(self, desk: Desk, address: Address, delivery: Delivery, prepared: Prepared) -> None:
        self._desk = desk
        self._limits = desk.settings.limits
        self._address = address
        self._delivery = delivery
        digest, keys = _claimed(address, prepared)
        name = f"{desk.name} {uuid.uuid4().hex[:12]}"
        claim = Claim(address.event.source, address.event.id, digest, delivery.sequence, name)
        self.held = Held(desk.store, address.key, claim)
        self.lease = Lease(desk.store, keys, holder_of(address.key, name), desk.lease)
        caps = caps_of(prepared, self._limits) if isinstance(prepared, Call) else ()
        self._slots = Slots(desk.store, desk.gate, self.lease, caps, delivery.sequence)
        self._waits = False

    async def in_line(self) -> bool:
        """Tell whether it has to wait for a slot; asked before all else where others wait, since a claim costs more.

        Not for what has ended, is canceled, was begun, or may be at work elsewhere: there the record decides.
        """
        if not self._desk.gate.crowded(self._slots.caps):
            return False
        entry = await self._desk.store.get(Bucket.OPERATIONS, self._address.key)
        record = Record.load(entry.value) if entry else None
        if record and (record.claim or record.last_known_state or record.state is not State.OPEN):
            return False
        return not await self._slots.take(self._limits, first=True) and self._slots.full is not None

    async def enter(self) -> tuple[Admission, bool]:
        """Ask for all three at once: what the record says, and whether the leases are ours."""
        work: list[Awaitable[Any]] = [self.held.admit(self._limits.attempts), self.lease.take()]
        if self._slots.caps:
            work.append(self._slots.take(self._limits, first=self._delivery.first))
        admission, leased, *_ = await together(*work)
        return admission, leased

    async def seated(self, before: Record) -> bool:
        """Tell whether there are slots, those included that an earlier try has left; to be asked under the lease.

        `before` is the record before the claim: a try that broke off has left something that goes on, and counts. One
        that only waited lets go of its slots a moment after its lease, or with it, when its worker dies.
        """
        if before.last_known_state is not None or self._slots.left_to_us:
            await self._slots.resume(self._limits, beyond=bool(before.claim))
        return self._slots.taken

    def wait(self) -> Again:
        """Leave the request in NATS, or with its caller, until there may be slots; that is no try."""
        cap, sequence, now = self._slots.full, self._delivery.sequence, self._desk.clock()
        assert cap is not None
        published, expires = self._delivery.published, self._address.expires
        waited = (now - published).total_seconds() if published else 0.0
        case = Case(
            self._limits,
            waited=waited,
            left=(expires - now).total_seconds() if expires else None,
            ahead=self._desk.gate.ahead(cap, sequence),
            jitter=random.random(),  # noqa: S311 - spreads those that wait
        )
        decision = decide(Wait.FULL, case)
        assert isinstance(decision, Retry)
        if sequence is not None:
            self._desk.gate.wait(cap, sequence, decision.delay)
        self._waits = True
        return Again(decision.delay, Wait.FULL.value, begun=False)

    async def let_go(self, *, keeps_slots: bool) -> None:
        """Give everything back; slots that are kept run out unless the next try takes them over before."""
        if not self._waits:
            self._desk.gate.entered(self._slots.caps, self._delivery.sequence)
        slots = self._slots.keys
        freed = await self.lease.release(leaving=slots if keeps_slots else ())
        if slots and all(key in freed for key in slots):
            self._desk.gate.opened(self._slots.caps, {key: freed[key] for key in slots})


def _claimed(address: Address, prepared: Prepared) -> tuple[str, tuple[str, ...]]:
    """Say what a record keeps to know the request again, and what it works on."""
    if isinstance(prepared, CallError):
        return refused_digest(address, prepared), ()
    return prepared.digest, prepared.identities
