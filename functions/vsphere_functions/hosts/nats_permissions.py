"""Who may publish and hear what in NATS: a user for each part, and nothing more than that part needs."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Channel
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS, consumer_name
from vsphere_functions.runtime.store import Bucket

ACCOUNT = "VSPHERE"
"""The account that all of it is in."""
DOMAIN = "hub"
"""The JetStream domain of the server that keeps the streams: how a leaf node names what is there."""
OVER_LEAF = {"$JS.API.": f"$JS.{DOMAIN}.API.", "$KV.": f"$JS.{DOMAIN}.API.$KV."}
"""Subjects that do not cross a leaf node, and the names under which they do."""

_GET = "$JS.API.DIRECT.GET"


class User(NamedTuple):
    """A user by the name of its key: subjects that it may publish to and subscribe, and the prefix of its inboxes."""

    name: str
    does: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    inbox: str


def users(labels: Iterable[str]) -> list[User]:
    """Give the users for these vCenters: producers of each, whom no other hears, and one of everything else."""
    labels = tuple(labels)
    return [
        _user("setup", "makes streams, consumers and buckets", ["$JS.API.>"]),
        _user("worker", "works on requests; the HTTP host does the same", _worker(labels)),
        *(_producer(label) for label in labels),
        _user(
            "operator",
            "looks at everything, redrives and purges dead letters, and sends requests",
            _operator(labels),
            (_all(channel, label) for label in labels for channel in (Channel.RESULT, Channel.PROGRESS)),
        ),
        _leaf(labels),
    ]


def at_site(worker: User) -> User:
    """Give a user its permissions on a leaf node, whose mappings come before them."""
    return worker._replace(publish=tuple(map(over_leaf, worker.publish)))


def over_leaf(subject: str) -> str:
    """Name a subject as it crosses a leaf node."""
    for start, other in OVER_LEAF.items():
        if subject.startswith(start):
            return subject.replace(start, other, 1)
    return subject


def _user(name: str, does: str, publish: Iterable[str], subscribe: Iterable[str] = ()) -> User:
    inbox = f"_INBOX_{name}"
    return User(name, does, tuple(publish), (*subscribe, f"{inbox}.>"), inbox)


def _leaf(labels: Iterable[str]) -> User:
    """Make the user that a leaf node is: what its workers may, under the names that cross it."""
    return at_site(_user("worker", "", _worker(labels)))._replace(
        name="leaf", does="is the server beside a distant vCenter, for the workers there"
    )


def _producer(label: str) -> User:
    results = _all(Channel.RESULT, label)
    return _user(
        f"producer-{label}",
        f"sends requests for {label} and hears their progress and results",
        [_all(Channel.REQUEST, label), f"{_GET}.{RESULTS}.{results}"],
        [results, _all(Channel.PROGRESS, label)],
    )


def _worker(labels: Iterable[str]) -> Iterator[str]:
    for label in labels:
        # A batch is taken apart into requests.
        for channel in (Channel.REQUEST, Channel.RESULT, Channel.PROGRESS, Channel.DEAD):
            yield _all(channel, label)
        for function in FUNCTIONS:
            consumer = consumer_name(label, function)
            yield f"$JS.API.CONSUMER.INFO.{REQUESTS}.{consumer}"
            yield f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.{consumer}"
            yield f"$JS.ACK.{REQUESTS}.{consumer}.>"
    for bucket in Bucket:
        yield f"$KV.{bucket}.>"
        yield f"{_GET}.KV_{bucket}.>"
    # Without a subject behind it: many messages at once.
    for bucket in (Bucket.IDENTITIES, Bucket.LEASES):
        yield f"{_GET}.KV_{bucket}"


def _operator(labels: Iterable[str]) -> Iterator[str]:
    yield from _looks()
    yield f"{_GET}.{DEAD}"
    yield f"$JS.API.STREAM.MSG.DELETE.{DEAD}"
    yield f"$KV.{Bucket.OPERATIONS}.>"
    yield f"{_GET}.KV_{Bucket.OPERATIONS}.>"
    for label in labels:
        yield _all(Channel.REQUEST, label)
        yield _all(Channel.RESULT, label)
        yield f"{_GET}.{RESULTS}.{_all(Channel.RESULT, label)}"


def _looks() -> Iterator[str]:
    """Name what `nats stream report`, `consumer report`, `stream subjects` and `kv get` ask, which changes nothing."""
    yield from ("$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES")
    for stream in (REQUESTS, RESULTS, DEAD, *(f"KV_{bucket}" for bucket in Bucket)):
        yield f"$JS.API.STREAM.INFO.{stream}"
        yield f"$JS.API.CONSUMER.LIST.{stream}"
        yield f"$JS.API.CONSUMER.NAMES.{stream}"
        yield f"$JS.API.CONSUMER.INFO.{stream}.*"
    yield f"{_GET}.KV_{Bucket.LEASES}.>"


def _all(channel: Channel, label: str) -> str:
    return f"vsphere.{channel}.{label}.>"
