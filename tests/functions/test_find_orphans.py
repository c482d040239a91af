"""Orphaned machines: what is one, what is not, and what a sweep deletes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from support.gateway import error_of
from support.machines import (
    OTHERS,
    at,
    create,
    creation,
    delete,
    end,
    extra,
    foreign,
    info,
    many,
    status,
    vms,
)
from support.orphans import begun, sweep
from support.soap import Soap
from vsphere_events.code import Code
from vsphere_events.request import FindOrphansResult
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.request.find_orphans import find_orphans
from vsphere_functions.vsphere.vcenter import VCenter

FOLDER = "/DC0/vm/demo/machines"
VOLUME = "[we ird (1)] vols/data.vmdk"


class Creating:
    """The records of creates that have begun and not ended."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def creating(self, owner: str) -> frozenset[str]:
        assert owner
        return self.names


def names(found: FindOrphansResult) -> list[str]:
    return sorted(one.machine_name or "" for one in found.orphans)


@pytest.fixture(scope="module")
def two(shared_vcenter: SimulatedVCenter) -> Iterator[dict[str, str]]:
    """Two machines that stand, and their providerIDs."""
    with at(shared_vcenter) as ctx:
        yield {name: str(create(ctx, name).provider_id) for name in ("worker-1", "worker-2")}
        for name in ("worker-1", "worker-2"):
            delete(ctx, name)


def test_a_machine_that_no_list_knows_is_an_orphan(
    shared_vcenter: SimulatedVCenter, two: dict[str, str]
) -> None:
    with at(shared_vcenter) as ctx:
        found = sweep(ctx, "worker-1", "never-made")
        (orphan,) = found.orphans
        assert (orphan.machine_name, str(orphan.provider_id)) == ("worker-2", two["worker-2"])
        assert orphan.id.startswith("machine/vm-")
        assert orphan.age_seconds is not None
        assert "none of the machines that are known" in orphan.reason
        assert names(sweep(ctx)) == ["worker-1", "worker-2"]
        assert names(sweep(ctx, "worker-1", "worker-2")) == []
        assert names(sweep(ctx, tags=OTHERS)) == []


def test_a_known_providerid_is_that_incarnation_alone(
    shared_vcenter: SimulatedVCenter, two: dict[str, str]
) -> None:
    known = [{"machineName": name, "providerID": uuid} for name, uuid in two.items()]
    with at(shared_vcenter) as ctx:
        assert names(sweep(ctx, *known)) == []
        swapped = {"machineName": "worker-1", "providerID": two["worker-2"]}
        found = sweep(ctx, swapped, known[1])
        assert names(found) == ["worker-1"]
        assert "another incarnation" in found.orphans[0].reason
        assert names(sweep(ctx, swapped, *known)) == []


def test_a_machine_that_a_request_makes_is_none(
    shared_vcenter: SimulatedVCenter, two: dict[str, str]
) -> None:
    assert two
    with at(shared_vcenter, unfinished=Creating("worker-2")) as ctx:
        assert names(sweep(ctx)) == ["worker-1"]


def test_a_young_machine_is_none_and_one_of_unknown_age_is_not_old(
    shared_vcenter: SimulatedVCenter, two: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    with at(shared_vcenter) as ctx, at(shared_vcenter, clock=lambda: later) as late:
        assert names(sweep(ctx, least=3600)) == []
        found = sweep(late, least=3600)
        assert names(found) == sorted(two)
        assert all(7000 < (one.age_seconds or 0) < 8000 for one in found.orphans)
        read = VCenter.read
        for told in (None, "1970-01-01T00:00:00Z", "yesterday", "2020-01-01T00:00:00"):

            def undated(self: VCenter, refs: Any, paths: Any, told: str | None = told) -> Any:
                rows = read(self, refs, paths)
                return {ref: {**row, "config.createDate": told} for ref, row in rows.items()}

            monkeypatch.setattr(VCenter, "read", undated)
            assert names(sweep(late, least=3600)) == []
            assert [one.age_seconds for one in sweep(late).orphans] == [None, None]


def test_copies_and_templates_are_no_orphans(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        copy = foreign(vcenter, "copy")
        mark = extra(vcenter)["vspherefunctions.mark"]
        vcenter.govc("vm.change", "-dc", "DC0", "-vm", copy, "-e", f"vspherefunctions.mark={mark}")
        vcenter.govc("vm.power", "-off", f"{FOLDER}/worker-1")
        vcenter.govc("vm.markastemplate", f"{FOLDER}/worker-1")
        found = sweep(ctx)
    assert (found.orphans, found.copies) == ((), ("copy",))


def test_exactly_those_are_deleted_that_are_named_and_volumes_survive(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        for number in range(1, 5):
            create(ctx, f"worker-{number}")
        soap.make_folder("[we ird (1)] vols")
        soap.create_disk(VOLUME)
        soap.attach(soap.find(f"{FOLDER}/worker-3"), VOLUME)
        ids = {one.machine_name: one.id for one in sweep(ctx, "worker-1").orphans}
        assert len(ids) == 3
        found = sweep(ctx, "worker-1", delete=[ids["worker-3"]])
        assert found.deleted == (ids["worker-3"],)
        assert [one.vmdk_path for one in found.detached_volumes] == [VOLUME]
        assert names(found) == ["worker-2", "worker-4"]
        assert soap.disk_uuid(VOLUME)
        left = [path.rpartition("/")[2] for path in vms(vcenter) if path.startswith(FOLDER)]
        assert left == ["worker-1", "worker-2", "worker-4"]
        again = sweep(ctx, "worker-1", delete=[ids["worker-3"]])
        assert (again.deleted, names(again)) == (found.deleted, names(found))


def test_an_id_means_one_incarnation_and_an_orphan(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, at(vcenter, unfinished=Creating("worker-3")) as making:
        for number in range(1, 5):
            create(ctx, f"worker-{number}")
        ids = {one.machine_name: one.id for one in sweep(ctx, "worker-1").orphans}
        delete(ctx, "worker-2")
        create(ctx, "worker-2")
        named = [ids["worker-2"], ids["worker-3"]]
        found = sweep(making, "worker-1", delete=named)
        assert found.deleted == (ids["worker-2"],), "the one that was named is gone"
        assert names(found) == ["worker-2", "worker-4"]
        assert sweep(making, "worker-1", "worker-2", least=9999, delete=[ids["worker-4"]]).deleted == ()
        assert sweep(ctx, "worker-1", "worker-3", delete=[ids["worker-3"]]).deleted == ()
        for number in range(1, 5):
            assert status(ctx, f"worker-{number}").phase == "Running"


@pytest.mark.parametrize(("what", "other"), [("shoot--demo--a", "shoot--demo--b"), ("worker-", "other-")])
def test_what_changes_before_its_turn_is_left_alone(vcenter: SimulatedVCenter, what: str, other: str) -> None:
    """Between the look at all of them and the look at the one, another mark is put on it."""
    with at(vcenter) as ctx:
        for number in range(1, 5):
            create(ctx, f"worker-{number}")
        ids = {one.machine_name: one.id for one in sweep(ctx, "worker-1", "worker-2").orphans}
        steps = find_orphans(begun("worker-1", "worker-2", delete=list(ids.values())), ctx)
        next(step for step in steps if step.phase == "destroy" and "gone" in step.message)
        (path,) = (one for one in vms(vcenter) if one.endswith(("worker-3", "worker-4")))
        mark = extra(vcenter, path)["vspherefunctions.mark"].replace(what, other)
        vcenter.govc("vm.change", "-vm", path, "-e", f"vspherefunctions.mark={mark}")
        found = end(steps)
    name = path.rpartition("/")[2]
    assert path in vms(vcenter)
    assert ids[name] not in found.deleted
    assert [(one.machine_name, one.reason.rpartition("; ")[2]) for one in found.orphans] == [
        (name, "not deleted: it has changed since it was found")
    ]


def test_a_sweep_that_knows_nothing_or_would_take_most_is_refused(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        machines = many(soap, 5)
        before = vms(vcenter)
        ids = {one.machine_name: one.id for one in sweep(ctx).orphans}
        one, two, three = (ids[name] for name in machines[2:])
        empty = error_of(sweep, ctx, delete=[one])
        most = error_of(sweep, ctx, *machines[:2], delete=[one, two, three])
        assert (empty.code, most.code) == (Code.FAILED_PRECONDITION, Code.FAILED_PRECONDITION)
        assert "all 5 of the owner" in empty.message
        assert "3 of the 5 machines" in most.message
        assert vms(vcenter) == before
        assert sweep(ctx, *machines[:2], delete=[one, two]).deleted == (one, two)
        assert (
            error_of(sweep, ctx, "another", delete=[three, ids[machines[0]]]).code is Code.FAILED_PRECONDITION
        )


@pytest.mark.parametrize("count", [2, 5, 7, 10])
def test_a_sweep_that_was_interrupted_is_told_whole_by_the_next_delivery(
    vcenter: SimulatedVCenter, count: int
) -> None:
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        for number in range(1, 5):
            create(ctx, f"worker-{number}")
        soap.make_folder("[we ird (1)] vols")
        disks = []
        for number in (1, 2):
            disks.append(f"[we ird (1)] vols/{number}.vmdk")
            soap.create_disk(disks[-1])
            soap.attach(soap.find(f"{FOLDER}/worker-{number}"), disks[-1])
        ids = [one.id for one in sweep(ctx, "worker-3", "worker-4").orphans]
        first = find_orphans(begun("worker-3", "worker-4", delete=ids), ctx)
        state = list(islice(first, count))[-1].state
        first.close()
        found = sweep(ctx, "worker-3", "worker-4", delete=ids, lastKnownState=state)
        assert sorted(found.deleted) == sorted(ids)
        assert sorted(one.vmdk_path for one in found.detached_volumes) == disks
        assert found.orphans == ()


def test_one_that_cannot_be_deleted_stays_with_the_reason_and_holds_up_no_other(
    vcenter: SimulatedVCenter,
) -> None:
    with at(vcenter) as ctx:
        for number in range(1, 7):
            create(ctx, f"worker-{number}")
        known = [f"worker-{number}" for number in range(4, 7)]
        ids = [one.id for one in sweep(ctx, *known).orphans]
        vcenter.govc(
            "vm.change", "-vm", f"{FOLDER}/worker-1", "-e", "SET.runtime.connectionState=disconnected"
        )
        vcenter.control.add_fault("Destroy_Task", "NoPermission", count=1)
        found = sweep(ctx, *known, delete=ids)
    assert len(found.deleted) == 1
    reasons = {one.machine_name: one.reason for one in found.orphans}
    assert len(reasons) == 2
    assert "not deleted: the VM is disconnected" in reasons["worker-1"]
    assert any("not deleted" in reason and "disconnected" not in reason for reason in reasons.values())


def test_a_failure_that_passes_ends_the_try(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        create(ctx)
        create(ctx, "worker-2")
        (orphan,) = sweep(ctx, "worker-1").orphans
        vcenter.control.add_fault("Destroy_Task", "HostNotConnected", scope="task", count=1)
        failed = error_of(sweep, ctx, "worker-1", delete=[orphan.id])
        assert failed.code is Code.UNAVAILABLE
        assert sweep(ctx, "worker-1", delete=[orphan.id]).deleted == (orphan.id,)


def test_a_half_built_machine_is_an_orphan_once_its_create_has_ended(vcenter: SimulatedVCenter) -> None:
    with at(vcenter) as ctx:
        broken = create_machine(creation(), ctx)
        list(islice(broken, 3))
        broken.close()
        (orphan,) = sweep(ctx).orphans
    assert "half built" in orphan.reason
    assert info(vcenter)


def test_orphans_beyond_what_fits_are_counted(
    vcenter: SimulatedVCenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vsphere_functions.request.find_orphans._SHOWN", 2)
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        machines = many(soap, 5)
        found = sweep(ctx, machines[0])
    assert (len(found.orphans), found.more) == (2, 2)
    ages = [one.age_seconds for one in found.orphans]
    assert ages == sorted(ages, reverse=True)  # type: ignore[type-var]  # all of these are known
