"""Which machines are being made: mid-clone the inventory does not show them, so the records have to."""

import asyncio
import json
from contextlib import suppress

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket, Entry, Store, StoreError, key_of


async def goes_on(store: Store, operation: str) -> bool:
    """Tell whether the operation with this key has a record and has not ended."""
    entry = await store.get(Bucket.OPERATIONS, operation)
    return entry is not None and not Record.load(entry.value).final


class Making:
    """Notes of creates that have begun and not ended, by owner; a note counts as long as its operation is open."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, host: str) -> None:
        self._store = store
        self._loop = loop
        self._host = host

    def creating(self, owner: str) -> frozenset[str]:
        """Name the owner's machines that are being made; called in a function's thread.

        Unavailable when the records cannot be reached: what they would say may be all there is to see of a machine.
        """
        try:
            return asyncio.run_coroutine_threadsafe(self._creating(owner), self._loop).result()
        except StoreError as error:
            raise CallError(
                Code.UNAVAILABLE, f"the records of unfinished creates cannot be read: {error}"
            ) from None

    async def _creating(self, owner: str) -> frozenset[str]:
        notes = await self._store.under(Bucket.IDENTITIES, self._prefix(owner))
        told = [json.loads(note.value) for note in notes.values() if note.value]
        open_ones = await asyncio.gather(*(goes_on(self._store, one["operation"]) for one in told))
        return frozenset(one["machine"] for one, is_open in zip(told, open_ones, strict=True) if is_open)

    async def by_another(self, owner: str, machine: str, operation: str) -> bool:
        """Tell whether another operation than this one makes the machine; false where the records do not tell."""
        with suppress(StoreError):
            entry = await self._store.get(Bucket.IDENTITIES, self._key(owner, machine))
            maker = json.loads(entry.value)["operation"] if entry and entry.value else operation
            return maker != operation and await goes_on(self._store, maker)
        return False

    async def begun(self, owner: str, machine: str, operation: str) -> None:
        """Note that an operation makes the machine; over the note of an earlier one that has ended."""
        key, note = self._key(owner, machine), _note(machine, operation)
        while await self._store.create(Bucket.IDENTITIES, key, note) is None:
            entry = await self._store.get(Bucket.IDENTITIES, key)
            if entry is not None and (entry.value == note or await self._put(key, note, entry)):
                return

    async def _put(self, key: str, note: bytes, entry: Entry) -> bool:
        return await self._store.update(Bucket.IDENTITIES, key, note, entry.revision) is not None

    async def ended(self, owner: str, machine: str, operation: str) -> None:
        """Drop the note; one that is left behind says nothing once its operation has ended."""
        key = self._key(owner, machine)
        with suppress(StoreError):
            entry = await self._store.get(Bucket.IDENTITIES, key)
            if entry is not None and entry.value == _note(machine, operation):
                await self._store.delete(Bucket.IDENTITIES, key, entry.revision)

    def _prefix(self, owner: str) -> str:
        return f"making.{key_of(self._host, owner)}"

    def _key(self, owner: str, machine: str) -> str:
        return f"{self._prefix(owner)}.{key_of(machine)}"


def _note(machine: str, operation: str) -> bytes:
    return json.dumps({"machine": machine, "operation": operation}).encode()
