"""Where records lie: a few keys with compare-and-set, in NATS or in memory."""

import hashlib
from enum import StrEnum
from typing import NamedTuple, Protocol


def key_of(*parts: str) -> str:
    """Make a key that NATS takes of any names; of a vCenter, its host counts, not the label that leads to it."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class Bucket(StrEnum):
    """The buckets by name."""

    OPERATIONS = "vsphere_operations"
    IDENTITIES = "vsphere_identities"
    LEASES = "vsphere_leases"


class Entry(NamedTuple):
    """A value, and the revision that a change of it must name."""

    value: bytes
    revision: int


class StoreError(Exception):
    """The store does not answer; whether the last change happened is unknown."""


class Store(Protocol):
    """Keys with compare-and-set; every method can raise StoreError."""

    async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
        """Write a key that is not there; its revision, or None when it is."""

    async def get(self, bucket: Bucket, key: str) -> Entry | None:
        """Read a key, or None when it is not there."""

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        """Write over `revision`, 0 for a key that is not there; the new one, or None when the key has moved on."""

    async def delete(self, bucket: Bucket, key: str, revision: int) -> int | None:
        """Remove a key that is at `revision`; the one to write over then, or None when the key has moved on."""

    async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
        """Read all keys `<prefix>.<one more token>` at once; one that was deleted may be there without a value."""


async def write_over(store: Store, bucket: Bucket, key: str, value: bytes, entry: Entry | None) -> int | None:
    """Write over what was read, or where nothing was; the revision, or None when somebody else has written since."""
    if entry is None:
        return await store.create(bucket, key, value)
    return await store.update(bucket, key, value, entry.revision)


class MemoryStore:
    """The records of a lone process: they end with it, and nobody else sees them.

    Leases do not run out here: whoever holds one is in the same process and lets go of it. Of the other buckets, what
    was written longest ago is forgotten when they hold more than `most` keys or `most_bytes` of values.
    """

    def __init__(self, most: int = 10_000, most_bytes: int = 64 * 1024 * 1024) -> None:
        self._entries: dict[tuple[Bucket, str], Entry] = {}  # oldest write first
        self._revision = 0
        self._most = most
        self._most_bytes = most_bytes
        self._kept = 0
        self._bytes = 0

    async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
        """Write a key that is not there."""
        return None if (bucket, key) in self._entries else self._write(bucket, key, value)

    async def get(self, bucket: Bucket, key: str) -> Entry | None:
        """Read a key."""
        return self._entries.get((bucket, key))

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        """Write over `revision`."""
        return self._write(bucket, key, value) if self._is_at(bucket, key, revision) else None

    async def delete(self, bucket: Bucket, key: str, revision: int) -> int | None:
        """Remove a key that is at `revision`."""
        if not self._is_at(bucket, key, revision):
            return None
        self._drop(bucket, key)
        return 0

    async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
        """Read all keys below prefixes."""
        return {
            key: entry
            for (place, key), entry in self._entries.items()
            if place is bucket and key.rpartition(".")[0] in prefixes
        }

    def _is_at(self, bucket: Bucket, key: str, revision: int) -> bool:
        entry = self._entries.get((bucket, key))
        return (entry.revision if entry else 0) == revision

    def _write(self, bucket: Bucket, key: str, value: bytes) -> int:
        self._drop(bucket, key)
        self._revision += 1
        self._entries[bucket, key] = Entry(value, self._revision)
        if bucket is not Bucket.LEASES:
            self._kept += 1
            self._bytes += len(value)
            self._forget()
        return self._revision

    def _drop(self, bucket: Bucket, key: str) -> None:
        entry = self._entries.pop((bucket, key), None)
        if entry is not None and bucket is not Bucket.LEASES:
            self._kept -= 1
            self._bytes -= len(entry.value)

    def _forget(self) -> None:
        """Drop the oldest but the newest, as long as there is too much."""
        while self._kept > max(self._most, 1) or (self._bytes > self._most_bytes and self._kept > 1):
            self._drop(*next(one for one in self._entries if one[0] is not Bucket.LEASES))
