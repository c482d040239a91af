"""The producers' client: send a request over NATS, follow its progress, await its result.

The only part of this package that does I/O. It relies on streams that `vsphere-functions setup` has made.
`Client` is for asyncio, `SyncClient` for plain scripts.
"""

from vsphere_events.client.client import Client
from vsphere_events.client.events import SOURCE, How, Told, Where, request_event, result_of
from vsphere_events.client.pending import Pending
from vsphere_events.client.sync import SyncClient, SyncPending

__all__ = [
    "SOURCE",
    "Client",
    "How",
    "Pending",
    "SyncClient",
    "SyncPending",
    "Told",
    "Where",
    "request_event",
    "result_of",
]
