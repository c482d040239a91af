"""A request is canceled over HTTP, while creates have every slot."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.http_host import request, running, settings_of, toml, until
from support.machines import vms
from vsphere_events.cloud_event import CloudEvent
from vsphere_functions.local.vcenter import SimulatedVCenter


def data_of(event: CloudEvent) -> dict[str, Any]:
    assert isinstance(event.data, dict)
    return event.data


def cancel(event: CloudEvent) -> CloudEvent:
    return request("cancel_request", data={"source": event.source, "id": event.id})


def test_a_create_that_runs_in_the_last_slot_is_canceled_and_leaves_nothing(
    vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    before = vms(vcenter)
    vcenter.control.delay(CloneVm=3000)
    with (
        running(tmp_path, settings_of(vcenter) + toml("http", {"slots": 1})) as host,
        ThreadPoolExecutor(1) as pool,
    ):
        event, later = request("create_machine"), request("create_machine", "worker-2")
        asked = pool.submit(host.call, event)
        until(lambda: vcenter.control.calls()["CloneVM_Task"])
        assert host.send(later).status_code == 503
        assert data_of(host.call(cancel(later)))["state"] == "absent"
        assert data_of(host.call(cancel(event)))["state"] == "open"
        assert data_of(asked.result())["error"]["code"] == "Canceled"
        assert vms(vcenter) == before
        assert data_of(host.call(later))["error"]["code"] == "Canceled"
        assert data_of(host.call(cancel(event)))["state"] == "done"
    assert vcenter.control.calls()["CloneVM_Task"] == 1
