"""Names and shapes of the streams, consumers and buckets."""

from collections.abc import Iterable, Iterator

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import request_subject
from vsphere_functions.runtime.settings import Nats
from vsphere_functions.runtime.store import Bucket

REQUESTS = "VSPHERE_REQUESTS"
RESULTS = "VSPHERE_RESULTS"
DEAD = "VSPHERE_DEAD"

DAY = 86400.0
ROOM_FOR_DEAD_LETTER_HEADERS = 64 * 1024
_DELAYED_NAKS = 10_000  # each holds a place among the unacknowledged


def consumer_name(label: str, function: str) -> str:
    """Name the consumer of a function's requests for a vCenter."""
    return f"{label}-{function}"


def streams(labels: Iterable[str], nats: Nats, max_payload: int) -> Iterator[StreamConfig]:
    """Describe the streams; requests are enumerated, so that an unknown one is refused and does not lie for ever."""
    yield StreamConfig(
        name=REQUESTS,
        subjects=[request_subject(label, function) for label in labels for function in FUNCTIONS],
        retention=RetentionPolicy.WORK_QUEUE,
        max_age=30 * DAY,
        max_msg_size=max_payload - ROOM_FOR_DEAD_LETTER_HEADERS,
        storage=StorageType.FILE,
        num_replicas=nats.replicas,
        discard=DiscardPolicy.NEW,
    )
    yield _kept(RESULTS, "vsphere.result.>", 7 * DAY, nats)
    yield _kept(DEAD, "vsphere.dead.>", 30 * DAY, nats)
    yield _bucket(Bucket.OPERATIONS, 7 * DAY, nats)
    # As long as a dead letter can be sent again: it keeps its place in the order.
    yield _bucket(Bucket.IDENTITIES, 31 * DAY, nats)
    yield _bucket(Bucket.LEASES, nats.lease, nats)


def consumer(label: str, function: str, nats: Nats) -> ConsumerConfig:
    """Describe a consumer; no backoff list, which would stretch the delays of naks."""
    return ConsumerConfig(
        durable_name=consumer_name(label, function),
        filter_subject=request_subject(label, function),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=nats.ack_wait_seconds,
        max_deliver=-1,
        max_ack_pending=_DELAYED_NAKS,
    )


def _kept(name: str, subject: str, age: float, nats: Nats) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[subject],
        retention=RetentionPolicy.LIMITS,
        max_age=age,
        storage=StorageType.FILE,
        num_replicas=nats.replicas,
        discard=DiscardPolicy.NEW,  # where an operator has set a bound, what is full refuses, and forgets nothing
        allow_direct=True,
    )


def _bucket(bucket: Bucket, age: float, nats: Nats) -> StreamConfig:
    """Describe a bucket as key-value clients expect it, without delete markers that outlive their key."""
    return StreamConfig(
        name=f"KV_{bucket}",
        subjects=[f"$KV.{bucket}.>"],
        max_msgs_per_subject=1,
        max_age=age,
        duplicate_window=min(age, 120.0),
        storage=StorageType.FILE,
        num_replicas=nats.replicas,
        discard=DiscardPolicy.NEW,
        allow_rollup_hdrs=True,
        allow_direct=True,
        allow_msg_ttl=True,
        deny_delete=True,
    )
