"""The record of an operation in its store, as the try that claims it may change it."""

import asyncio
import time

from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.operations import Admission, Begin, Claim, Record, admit, canceled
from vsphere_functions.runtime.store import Bucket, Entry, Store, StoreError, write_over


class Superseded(Exception):  # noqa: N818 - says what has happened, is caught and never shown
    """Another try owns the record now."""


class CancelRequested(Exception):  # noqa: N818 - likewise
    """The record asks its owner to stop; told once, when it is first seen."""


async def letter_written(store: Store, key: str, generation: int) -> None:
    """Note that the dead letter of a generation is written: until then whoever reads the record writes it.

    A record that has moved on since owes no letter.
    """
    entry = await store.get(Bucket.OPERATIONS, key)
    record = Record.load(entry.value) if entry else None
    if record and record.letter_due and record.generation == generation:
        await write_over(store, Bucket.OPERATIONS, key, record.changed(letter_due=False).dump(), entry)


class Held:
    """A record and the revision it was last seen at."""

    def __init__(self, store: Store, key: str, claim: Claim) -> None:
        self._store = store
        self._key = key
        self._claim = claim
        self._revision = 0
        self.record = Record(source=claim.source, id=claim.id)

    @property
    def ours(self) -> bool:
        """Whether this try is the one that the record names."""
        return self.record.claim == self._claim.name

    async def admit(self, attempts: int) -> Admission:
        """Claim a request not seen before, or read what is known of it; Superseded when that changes just now.

        A first claim is written already; any other only with `write`.
        """
        admission = admit(None, self._claim, attempts)
        assert isinstance(admission, Begin)
        revision = await self._store.create(Bucket.OPERATIONS, self._key, admission.record.dump())
        if revision is not None:
            self.record, self._revision = admission.record, revision
            return admission
        entry = await self._store.get(Bucket.OPERATIONS, self._key)
        if entry is None:
            raise Superseded
        self.record, self._revision = Record.load(entry.value), entry.revision
        return admit(self.record, self._claim, attempts)

    async def write(self, record: Record) -> None:
        """Write over the revision last seen; Superseded when somebody else has, CancelRequested at a caller's wish."""
        if record == self.record:
            return
        revision = await self._store.update(Bucket.OPERATIONS, self._key, record.dump(), self._revision)
        if revision is None:
            revision = await self._settled(record)
        self.record, self._revision = record, revision

    async def write_surely(self, record: Record, patience: float) -> None:
        """Write as `write`, over outages of the store of up to `patience` seconds."""
        until, pause = time.monotonic() + patience, 0.05
        while True:
            try:
                return await self.write(record)
            except StoreError as error:
                if time.monotonic() > until:
                    raise
                telemetry.log().warning("the records do not answer; trying again", reason=str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, 2.0)

    async def _settled(self, record: Record) -> int:
        """Find out who wrote: ourselves, though the answer was lost, or a caller that cancels, or a new owner."""
        entry = await self._store.get(Bucket.OPERATIONS, self._key)
        if entry and entry.value == record.dump():
            return entry.revision
        if entry is None or not self.ours:
            raise Superseded
        found = Record.load(entry.value)
        if (found.claim, found.generation) != (self.record.claim, self.record.generation) or found.final:
            raise Superseded
        return await self._over(record, found, entry)

    async def _over(self, record: Record, found: Record, entry: Entry) -> int:
        """Write over a caller's wish; what was to be written is kept, but for a result, whose owner decides anew."""
        heard = not found.canceling or self.record.canceling
        if not heard:
            told = self.record if record.final else record
            record = canceled(told, told.source, told.id)
        revision = await self._store.update(Bucket.OPERATIONS, self._key, record.dump(), entry.revision)
        if revision is None:
            raise Superseded
        if not heard:
            self.record, self._revision = record, revision
            raise CancelRequested
        return revision
