"""The records in NATS key-value buckets."""

import json

from nats.aio.msg import Msg

from vsphere_functions.hosts.nats_calls import WRONG_LAST_SEQUENCE, Calls, RefusedError, answer_of, status_of
from vsphere_functions.runtime.store import Bucket, Entry, StoreError

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_OPERATION = "KV-Operation"
_GONE = {"DEL", "PURGE"}
_TTL = "Nats-TTL"
_MARKER_LASTS = "60s"


class KvStore:
    """Keys of the three buckets (the Store protocol); the buckets are made by `setup`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def create(self, bucket: Bucket, key: str, value: bytes) -> int | None:
        """Write a key that is not there, or that was deleted."""
        revision = await self._put(bucket, key, value, 0)
        if revision is None:
            marker = await self._last(bucket, key)
            if marker and (marker.headers or {}).get(_OPERATION) in _GONE:
                revision = await self._put(bucket, key, value, _sequence(marker))
        return revision

    async def get(self, bucket: Bucket, key: str) -> Entry | None:
        """Read a key."""
        message = await self._last(bucket, key)
        if message is None or (message.headers or {}).get(_OPERATION) in _GONE:
            return None
        return Entry(message.data, _sequence(message))

    async def update(self, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
        """Write over `revision`, 0 for a key that is not there."""
        return await self._put(bucket, key, value, revision)

    async def under(self, bucket: Bucket, *prefixes: str) -> dict[str, Entry]:
        """Read all keys below prefixes in one request (a multi-message direct get)."""
        place = f"$KV.{bucket}."
        wanted = json.dumps({"multi_last": [f"{place}{prefix}.*" for prefix in prefixes]}).encode()
        messages = await self._calls.ask_for_all(f"$JS.API.DIRECT.GET.KV_{bucket}", wanted)
        return {
            (one.headers or {})["Nats-Subject"].removeprefix(place): Entry(_value(one), _sequence(one))
            for one in messages
        }

    async def delete(self, bucket: Bucket, key: str, revision: int) -> int | None:
        """Mark a key as deleted; the marker goes by itself, a key that stays deleted leaves nothing."""
        marker = {_OPERATION: "DEL", _TTL: _MARKER_LASTS}
        return await self._put(bucket, key, b"", revision, marker)

    async def _put(
        self, bucket: Bucket, key: str, value: bytes, revision: int, more: dict[str, str] | None = None
    ) -> int | None:
        headers = {_EXPECTED: str(revision), **(more or {})}
        try:
            return await self._calls.publish(f"$KV.{bucket}.{key}", value, headers)
        except RefusedError as error:
            if error.code == WRONG_LAST_SEQUENCE:
                return None
            raise

    async def _last(self, bucket: Bucket, key: str) -> Msg | None:
        message = await self._calls.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}")
        status = status_of(message)
        if status == "404":
            return None
        if status is not None:
            answer_of(message)
            raise StoreError(f"bucket {bucket} answers {status}")
        return message


def _value(message: Msg) -> bytes:
    return b"" if (message.headers or {}).get(_OPERATION) in _GONE else message.data


def _sequence(message: Msg) -> int:
    return int((message.headers or {})["Nats-Sequence"])
