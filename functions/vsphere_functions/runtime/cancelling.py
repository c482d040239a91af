"""How a caller's wish that a request should stop gets into its record."""

import asyncio

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.subjects import request_token
from vsphere_functions.runtime.operations import Record, canceled
from vsphere_functions.runtime.store import Bucket, Store, StoreError, write_over

_PAUSE = 0.02  # seconds


class Cancelling:
    """The records of requests to one vCenter, for whoever wants one to stop (the Requests protocol)."""

    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop, label: str) -> None:
        self._store = store
        self._loop = loop
        self._label = label

    def cancel(self, source: str, event_id: str) -> str:
        """Ask a request to stop, and say the state it was in; called in a function's thread.

        FailedPrecondition when it has ended, NotFound when another source has sent it, Unavailable when the records
        cannot be reached.
        """
        try:
            return asyncio.run_coroutine_threadsafe(self._cancel(source, event_id), self._loop).result()
        except StoreError as error:
            raise CallError(
                Code.UNAVAILABLE, f"the record of the request cannot be changed: {error}"
            ) from None

    async def _cancel(self, source: str, event_id: str) -> str:
        key = f"{self._label}.{request_token(event_id)}"
        while True:  # whoever was faster meanwhile has brought the request on
            entry = await self._store.get(Bucket.OPERATIONS, key)
            record = Record.load(entry.value) if entry else None
            wish = canceled(record, source, event_id)
            if wish == record or await write_over(self._store, Bucket.OPERATIONS, key, wish.dump(), entry):
                return "absent" if record is None or record.digest is None else record.state.value
            await asyncio.sleep(_PAUSE)  # in a cluster, what was read may be older than what was written
