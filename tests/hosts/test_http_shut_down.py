"""E16, its other half: what a broker hears of a shut-down over HTTP."""

from pathlib import Path

import pytest

from support.http_host import request, running, settings_of
from vsphere_events.envelope import Mode, from_http
from vsphere_functions.local.vcenter import SimulatedVCenter


@pytest.mark.parametrize("mode", Mode)
def test_e16_shutting_down_an_unknown_machine_is_one_failed_event_and_no_404(
    shared_vcenter: SimulatedVCenter, tmp_path: Path, mode: Mode
) -> None:
    """A broker would send a 404 again and again; 200 with the result event ends it, and so does the replay."""
    with running(tmp_path, settings_of(shared_vcenter), "shut_down_machine") as host:
        event = request("shut_down_machine", "nobody")
        first, again = host.send(event, mode), host.send(event, mode)
        assert (first.status_code, again.status_code) == (200, 200)
        assert first.content == again.content
        result = from_http(first.headers, first.content).event
    assert result.type == "io.vspherefunctions.shut_down_machine.failed.v1"
    assert isinstance(result.data, dict)
    assert (result.data["error"]["code"], result.data["error"]["retryable"]) == ("NotFound", False)
