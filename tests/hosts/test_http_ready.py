"""What the HTTP host says, in its log and to probes, of vCenters that it cannot use."""

from pathlib import Path

import pytest

from support.http_host import request, running, settings_of, until
from vsphere_functions.local.vcenter import SimulatedVCenter


@pytest.mark.parametrize("target", ["create_machine", None])
def test_without_a_vcenter_it_is_not_ready_and_says_so(tmp_path: Path, target: str | None) -> None:
    with running(tmp_path, "", target) as host:
        answer = host.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["problems"] == {"vcenters": "none is configured, so every request is refused"}
        assert host.log.count('"no vCenter can be used"') == 1
        assert host.client.get("/healthz").status_code == 200
        refused = host.send(request("create_machine"))
        assert refused.status_code == 400
        assert refused.text.endswith("}\n")


def test_the_router_logs_at_its_start_that_a_vcenter_refuses_the_login(
    shared_vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    with running(tmp_path, settings_of(shared_vcenter).replace(shared_vcenter.password, "wrong-one")) as host:
        until(lambda: "a vCenter cannot be used" in host.log)
        problem = host.client.get("/readyz").json()["problems"]["vcenter default"]
        assert problem.startswith("Unauthenticated: ")
        assert "wrong-one" not in problem + host.log
        assert shared_vcenter.username not in problem + host.log


def test_over_http_a_result_is_exactly_the_event(shared_vcenter: SimulatedVCenter, tmp_path: Path) -> None:
    with running(tmp_path, settings_of(shared_vcenter)) as host:
        answer = host.send(request("get_volume_ids", data={"pvSpecList": []}))
        assert answer.content == b'{"volumeIDs":[]}'
