"""Which machines are being made: mid-clone the inventory does not show them, so the records have to."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.operations import Record
from vsphere_functions.runtime.store import Bucket, Store, StoreError, key_of


async def goes_on(store: Store, operation: str) -> bool:
    """Tell whether the operation with this key has a record and has not ended."""
    entry = await store.get(Bucket.OPERATIONS, operation)
    return entry is not None and not Record.load(entry.value).final


@dataclass(frozen=True, slots=True)
class Note:
    """An operation that makes a machine of the owner under whose key the note lies."""

    machine: str
    operation: str

    def dump(self) -> bytes:
        """Render as JSON."""
        return json.dumps(asdict(self)).encode()


class Making:
    """Notes of creates that have begun and not ended, by owner; each of several for one machine has its own.

    A note counts as long as its operation is open.
    """

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, host: str) -> None:
        self.store = store
        self._loop = loop
        self._host = host

    def creating(self, owner: str) -> frozenset[str]:
        """Name the owner's machines that are being made; called in a function's thread.

        Unavailable when the records cannot be reached: what they would say may be all there is to see of a machine.
        """
        try:
            return asyncio.run_coroutine_threadsafe(self.begun_by(owner), self._loop).result()
        except StoreError as error:
            raise CallError(
                Code.UNAVAILABLE, f"the records of unfinished creates cannot be read: {error}"
            ) from None

    async def begun_by(self, owner: str) -> frozenset[str]:
        """Name the owner's machines that are being made."""
        return frozenset(note.machine for note in await self._open(await self._notes(owner)))

    async def by_another(self, owner: str, machine: str, operation: str) -> bool:
        """Tell whether another operation than this one makes the machine; false where the records do not tell."""
        with suppress(StoreError):
            notes = await self._notes(owner)
            others = [one for one in notes if one.machine == machine and one.operation != operation]
            return bool(await self._open(others))
        return False

    async def begun(self, owner: str, machine: str, operation: str) -> None:
        """Note that an operation makes the machine; an earlier try has noted the same."""
        note = Note(machine, operation)
        await self.store.create(Bucket.IDENTITIES, self._key(owner, note), note.dump())

    async def ended(self, owner: str, machine: str, operation: str) -> None:
        """Drop the note; one that is left behind says nothing once its operation has ended."""
        key = self._key(owner, Note(machine, operation))
        with suppress(StoreError):
            entry = await self.store.get(Bucket.IDENTITIES, key)
            if entry is not None:
                await self.store.delete(Bucket.IDENTITIES, key, entry.revision)

    async def _notes(self, owner: str) -> list[Note]:
        entries = await self.store.under(Bucket.IDENTITIES, self._prefix(owner))
        return [Note(**json.loads(one.value)) for one in entries.values() if one.value]

    async def _open(self, notes: Iterable[Note]) -> list[Note]:
        told = list(notes)
        open_ones = await asyncio.gather(*(goes_on(self.store, one.operation) for one in told))
        return [one for one, is_open in zip(told, open_ones, strict=True) if is_open]

    def _prefix(self, owner: str) -> str:
        return f"making.{key_of(self._host, owner)}"

    def _key(self, owner: str, note: Note) -> str:
        return f"{self._prefix(owner)}.{key_of(note.machine, note.operation)}"
