"""create_machine: sizes, shares and disks of the provider spec, on the simulated vCenter."""

from typing import Any

import pytest
from lxml import etree

from support.gateway import error_of
from support.machines import at, create, creation, delete, extra, info, validate
from support.soap import Soap
from support.wire import options_in, recorded, texts_in
from vsphere_events.code import Code
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

GIB = 1024 * 1024
"""In KiB."""


def _reconfigure(sent: list[bytes]) -> bytes:
    """The one reconfigure after the clone."""
    return next(body for body in sent if b"ReconfigVM_Task" in body and b"vspherefunctions.born" in body)


def _text(body: bytes, path: str) -> str | None:
    return etree.fromstring(body).findtext(".//" + "/".join(f"{{*}}{part}" for part in path.split("/")))


def _disks(vcenter: SimulatedVCenter) -> list[Any]:
    devices = info(vcenter)["config"]["hardware"]["device"]
    return sorted((one for one in devices if "capacityInKB" in one), key=lambda one: one["unitNumber"])


def test_cores_shares_limits_and_reservations_are_set(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(
            ctx,
            numCpus=4,
            coresPerSocket=2,
            cpuAllocation={"reservation": 500, "limit": 2000, "shares": "high"},
            memoryAllocation={"reservation": 1024, "limit": -1, "shares": 2000},
        )
    config = info(vcenter)["config"]
    assert config["hardware"]["numCoresPerSocket"] == 2
    cpu, memory = config["cpuAllocation"], config["memoryAllocation"]
    assert (cpu["reservation"], cpu["limit"], cpu["shares"]["level"]) == (500, 2000, "high")
    assert (memory["reservation"], memory["limit"]) == (1024, -1)
    assert memory["shares"] == {"level": "custom", "shares": 2000}


@pytest.mark.parametrize("locked", [True, False])
def test_all_memory_is_reserved_when_the_spec_says_so(vcenter: SimulatedVCenter, locked: bool) -> None:
    with at(vcenter) as ctx:
        create(ctx, memoryReservationLockedToMax=locked)
    assert info(vcenter)["config"].get("memoryReservationLockedToMax") is locked


def test_what_the_clone_has_been_asked_for_is_not_asked_again(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator ignores cores and flags of a clone's spec, so both calls carry them; sizes it takes."""
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, coresPerSocket=2)
    clone = next(body for body in sent if b"CloneVM_Task" in body)
    assert texts_in(clone, "numCoresPerSocket") == texts_in(_reconfigure(sent), "numCoresPerSocket") == ["2"]
    assert texts_in(clone, "numCPUs") == ["2"]
    assert texts_in(_reconfigure(sent), "numCPUs") == []


def test_disks_show_their_uuids_in_the_guest_unless_the_spec_says_otherwise(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx)
        assert info(vcenter)["config"]["flags"]["diskUuidEnabled"] is True
        delete(ctx)
        create(ctx, "worker-2", extraConfig={"disk.EnableUUID": "FALSE"})
    assert _text(_reconfigure(sent), "flags/diskUuidEnabled") == "true"
    last = next(body for body in reversed(sent) if b"vspherefunctions.born" in body and b"ReconfigVM" in body)
    assert _text(last, "flags/diskUuidEnabled") is None


def test_a_machine_that_is_half_built_gets_the_rest_of_its_settings(vcenter: SimulatedVCenter) -> None:
    spec: dict[str, Any] = {"coresPerSocket": 2, "memoryReservationLockedToMax": True}
    with at(vcenter) as ctx:
        began = create_machine(creation(**spec), ctx)
        state = next(began).state
        began.close()
        create(ctx, state=state, **spec)
    assert vcenter.control.calls()["CloneVM_Task"] == 1
    assert info(vcenter)["config"]["hardware"]["numCoresPerSocket"] == 2
    assert info(vcenter)["config"]["memoryReservationLockedToMax"] is True


def test_the_template_s_sizes_count_where_the_spec_has_none(shared_vcenter: SimulatedVCenter) -> None:
    """The template has 2 CPUs and 2,048 MiB."""
    with at(shared_vcenter) as ctx:
        refused = error_of(
            create,
            ctx,
            numCpus=None,
            memory=None,
            coresPerSocket=3,
            memoryAllocation={"reservation": 2049},
        )
    assert refused.code is Code.INVALID_ARGUMENT
    assert {detail.field: detail.reason for detail in refused.details} == {
        "providerSpec.coresPerSocket": "does not divide the template's 2 CPUs",
        "providerSpec.memoryAllocation.reservation": "is more than the template's 2048 MiB of memory",
    }


def test_disks_are_born_with_the_machine_and_go_with_it(vcenter: SimulatedVCenter) -> None:
    disks = [
        {"size": 5},
        {"size": 6, "provisioning": "thick"},
        {"size": 7, "provisioning": "eagerZeroedThick"},
    ]
    with at(vcenter) as ctx:
        create(ctx, disks=disks)
        found = _disks(vcenter)
        assert [one["capacityInKB"] // GIB for one in found] == [20, 5, 6, 7]
        assert [one["backing"].get("thinProvisioned") for one in found[1:]] == [True, False, False]
        assert [one["backing"].get("eagerlyScrub") for one in found[1:]] == [False, False, True]
        assert {one["backing"]["fileName"].partition("/")[0] for one in found} == {"[we ird (1)] worker-1"}
        born = extra(vcenter)["vspherefunctions.born"]
        assert all(str(one["key"]) in born for one in found)
        gone = delete(ctx)
    assert gone.detached_volumes == ()
    with Soap(vcenter) as soap:
        for disk in found:
            with pytest.raises(Exception, match=r"(?i)not ?found"):
                soap.disk_uuid(disk["backing"]["fileName"])


def test_disks_stay_behind_the_system_disk_and_off_the_controller_s_own_unit(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, disks=[{"size": 1}] * 14)
    clone = next(body for body in sent if b"CloneVM_Task" in body)
    units = [
        int(device.findtext("{*}unitNumber") or -1)
        for device in etree.fromstring(clone).iter("{*}device")
        if device.find("{*}capacityInKB") is not None
    ]
    assert units == [*range(1, 7), *range(8, 16)]


def test_more_disks_than_there_are_slots_are_refused(shared_vcenter: SimulatedVCenter) -> None:
    with at(shared_vcenter) as ctx:
        refused = error_of(create, ctx, disks=[{"size": 1}] * 15)
        seen = validate(ctx, disks=[{"size": 1}] * 15)
    assert [detail.field for detail in refused.details] == ["providerSpec.disks"]
    assert "room for 14 more" in refused.details[0].reason
    assert [one.field for one in seen.violations] == ["providerSpec.disks"]


def test_a_storage_pod_is_asked_for_room_for_all_disks(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, datastore=None, datastoreCluster="DC0_POD0", disks=[{"size": 5}])
    asked = next(body for body in sent if b"RecommendDatastores" in body)
    assert texts_in(asked, "capacityInKB") == [str(5 * GIB)]
    assert {one["backing"]["fileName"].partition("/")[0] for one in _disks(vcenter)} == {"[PodDS_0] worker-1"}


def test_force_is_taken(vcenter: SimulatedVCenter) -> None:
    """There is no check for it to skip: vCenter gives a new machine a folder of its own."""
    with at(vcenter) as ctx:
        assert create(ctx, force=True).node_name == "worker-1"


def test_other_extra_config_stays(vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = recorded(monkeypatch)
    with at(vcenter) as ctx:
        create(ctx, extraConfig={"a.b": "c"})
    assert options_in(next(body for body in sent if b"CloneVM_Task" in body))["a.b"] == "c"
