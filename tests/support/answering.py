"""A worker of a few lines, over a real NATS server, for tests of those who ask."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

import nats
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.js.api import RetentionPolicy, StreamConfig

from vsphere_events import machine, request, results, volume
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.envelope import Mode, Received, from_nats, to_nats
from vsphere_events.error import CallError
from vsphere_events.model import Result
from vsphere_events.outcome import Progress
from vsphere_events.subjects import parse_event_type, progress_subject, request_token, result_subject
from vsphere_functions.local.nats_server import NatsServer

Answer: TypeAlias = Callable[[Connection, CloudEvent], Awaitable[None]]
AT = datetime(2027, 3, 1, 8, 15, tzinfo=UTC)
PROVIDER_ID = "vsphere://eu-1/420f77aa-5c1d-9b02-4e6a-d2c1b3a49587"
VOLUME = volume.Volume(
    tag="data-1", datastore="a", vmdk_path="[a] b.vmdk", self_link="vsphere-volume://x/y/data-1"
)
STANDS: dict[str, Any] = {"provider_id": PROVIDER_ID, "last_known_state": "s"}
RESULTS: dict[str, Result] = {
    "create_machine": machine.CreateMachineResult(node_name="worker-1", **STANDS),
    "delete_machine": machine.DeleteMachineResult(**STANDS),
    "initialize_machine": machine.InitializeMachineResult(node_name="worker-1", **STANDS),
    "get_machine_status": machine.GetMachineStatusResult(
        node_name="worker-1", power_state=machine.PowerState.ON, phase=machine.Phase.RUNNING, **STANDS
    ),
    "list_machines": machine.ListMachinesResult(machine_list={PROVIDER_ID: "worker-1"}),
    "shut_down_machine": machine.ShutDownMachineResult(power_state=machine.PowerState.OFF, **STANDS),
    "get_volume_ids": volume.GetVolumeIdsResult(volume_ids=("a",)),
    "create_volume": volume.CreateVolumeResult(volume=VOLUME),
    "get_volume": volume.GetVolumeResult(volume=VOLUME),
    "destroy_volume": volume.DestroyVolumeResult(),
    "list_volumes": volume.ListVolumesResult(volumes=(VOLUME,)),
    "attach_volume": volume.AttachVolumeResult(volume=VOLUME, **STANDS),
    "detach_volume": volume.DetachVolumeResult(volume=VOLUME, **STANDS),
    "resize_volume": volume.ResizeVolumeResult(volume=VOLUME),
    "copy_volume": volume.CopyVolumeResult(volume=VOLUME),
    "find_orphans": request.FindOrphansResult(deleted=("a",)),
    "cancel_request": request.CancelRequestResult(state="open"),
    "validate_machine": machine.ValidateMachineResult(),
}
"""A result of every function."""


@asynccontextmanager
async def streams(
    server: NatsServer, *functions: str, max_msg_size: int | None = None
) -> AsyncIterator[Connection]:
    """The streams that `setup` makes, for these functions of one vCenter; delete_machine if none is named."""
    connection = await nats.connect(server.url)
    js = connection.jetstream()
    await js.add_stream(
        StreamConfig(
            name="VSPHERE_REQUESTS",
            subjects=[f"vsphere.request.default.{name}" for name in functions or ("delete_machine",)],
            retention=RetentionPolicy.WORK_QUEUE,
            max_msg_size=max_msg_size,
        )
    )
    await js.add_stream(
        StreamConfig(name="VSPHERE_RESULTS", subjects=["vsphere.result.>"], allow_direct=True)
    )
    try:
        yield connection
    finally:
        await connection.close()


async def responder(connection: Connection, answer: Answer) -> None:
    """Answer each request as it passes by."""

    async def heard(message: Msg) -> None:
        received = from_nats(message.headers, message.data)
        assert isinstance(received, Received)
        await answer(connection, received.event)

    await connection.subscribe("vsphere.request.>", cb=heard)
    await connection.flush()


async def publish(connection: Connection, request: CloudEvent, outcome: Result | CallError) -> None:
    """Store the result of a request, as a worker does."""
    function, _ = parse_event_type(request.type)
    make: Any = results.failed if isinstance(outcome, CallError) else results.succeeded
    headers, body = to_nats(make(function, request, "default", outcome, at=AT), Mode.BINARY)
    subject = result_subject("default", function, request_token(request.id))
    await connection.jetstream().publish(subject, body, headers=headers)


async def say(connection: Connection, request: CloudEvent, number: int) -> None:
    """Publish progress, the `number`th of the request."""
    function, _ = parse_event_type(request.type)
    said = Progress(step=f"step-{number}", message="so far", percent=10 * number)
    event = results.progress(function, request, "default", said, at=AT, number=number)
    headers, body = to_nats(event, Mode.STRUCTURED)
    await connection.publish(
        progress_subject("default", function, request_token(request.id)), body, headers=headers
    )
