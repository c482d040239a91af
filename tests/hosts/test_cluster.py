"""Records and requests in a cluster of three servers, each of which can answer for the others."""

import asyncio
from collections.abc import Iterator

import nats
import pytest

from support.cluster import Cluster
from support.functions import settings
from vsphere_functions.hosts.kv import KvStore
from vsphere_functions.hosts.nats_calls import Calls
from vsphere_functions.hosts.nats_setup import set_up
from vsphere_functions.runtime.settings import Nats
from vsphere_functions.runtime.store import Bucket


@pytest.fixture
def cluster(nats_server_binary: object) -> Iterator[Cluster]:
    assert nats_server_binary
    with Cluster() as one:
        yield one


def test_of_many_who_write_a_key_at_once_one_wins_and_the_others_know_it(cluster: Cluster) -> None:
    """While a write is under way in a cluster, another one is refused by a code that decides nothing."""

    async def run() -> None:
        await cluster.healthy()
        client = await nats.connect(cluster.urls)
        calls = Calls(client)
        try:
            configured = settings().model_copy(update={"nats": Nats(url=tuple(cluster.urls), replicas=3)})
            await set_up(client, configured)
            await calls.open()
            store = KvStore(calls)
            for number in range(10):
                key = f"key-{number}"
                tries = (store.create(Bucket.LEASES, key, f"{n}".encode()) for n in range(4))
                won = [revision for revision in await asyncio.gather(*tries) if revision is not None]
                assert len(won) == 1
                again = (store.update(Bucket.LEASES, key, f"{n}".encode(), won[0]) for n in range(4))
                assert sum(revision is not None for revision in await asyncio.gather(*again)) == 1
        finally:
            await calls.close()
            await client.close()

    asyncio.run(run())
