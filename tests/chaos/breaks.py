"""Mechanisms to do without, so that a run can be seen to fail: each entry disables one in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.msg import Msg

from vsphere_events.error import CallError
from vsphere_functions.hosts.nats_inbox import Inbox, _subject
from vsphere_functions.runtime import turns
from vsphere_functions.runtime.claims import Held
from vsphere_functions.runtime.leases import Lease
from vsphere_functions.runtime.order import Identity
from vsphere_functions.runtime.perform import Finished


def no_confirmed_ack() -> None:
    """Acknowledge a request when it comes, and do not look whether the server has heard it."""
    handle, settle = Inbox.handle, Inbox._settle

    async def acknowledged(self: Inbox, message: Msg) -> None:
        await self._client.publish(message.reply, b"+ACK")
        await handle(self, message)

    async def naks_only(self: Inbox, message: Msg, word: bytes) -> None:
        if word != b"+ACK":
            await settle(self, message, word)

    Inbox.handle = acknowledged  # type: ignore[method-assign]  # the break itself
    Inbox._settle = naks_only  # type: ignore[method-assign]  # likewise


def no_lease() -> None:
    """Take no lease on a machine or volume: whoever comes works."""

    async def take(self: Lease) -> bool:
        self._fresh_until = float("inf")
        return True

    Lease.take = take  # type: ignore[method-assign]  # the break itself


def no_fence() -> None:
    """Change the vCenter whether or not the lease still stands."""

    def passes(self: Lease) -> None:
        del self

    Lease.check = passes  # type: ignore[method-assign]  # the break itself
    Lease.confirm = passes  # type: ignore[method-assign]  # likewise


def no_record_before_publish() -> None:
    """Publish a result first and store it in the record after that."""
    write = Held.write_surely
    owed: dict[str, Callable[[], Awaitable[None]]] = {}

    async def later(self: Held, record: Any, patience: float) -> None:
        before = self.record
        if not record.final:
            await write(self, record, patience)
            return

        async def store() -> None:
            self.record = before
            await write(self, record, patience)

        owed[record.id] = store
        self.record = record

    async def published_first(self: Inbox, message: Msg, address: Any, mode: Any, ending: Finished) -> None:
        if ending.dead:
            await self._dead(
                message, _subject(address), ending.dead, f"{address.key}.{ending.dead.generation}"
            )
        await self._outbox.result(address, ending, mode)
        if storing := owed.pop(address.event.id, None):
            await storing()
        await self._settle(message, b"+ACK")

    Held.write_surely = later  # type: ignore[method-assign]  # the break itself
    Inbox._finish = published_first  # type: ignore[method-assign]  # likewise


def no_order() -> None:
    """Let every request for a machine or volume begin, however late it is."""
    in_order = turns.ordered  # type: ignore[attr-defined]  # the name that a turn looks up

    def any_order(identity: Identity, *about: Any, **more: Any) -> Identity:
        try:
            placed: Identity = in_order(identity, *about, **more)
        except CallError:
            return identity
        return placed

    turns.ordered = any_order  # type: ignore[attr-defined]  # the break itself


BREAKS: dict[str, Callable[[], None]] = {
    "ack": no_confirmed_ack,
    "lease": no_lease,
    "fence": no_fence,
    "record": no_record_before_publish,
    "order": no_order,
}
