"""What is left of volumes: creates and destroys that never ended, and nothing that may hold data."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from support.gateway import error_of
from support.machines import end
from support.orphans import begun, sweep
from support.soap import Soap
from support.volumes import (
    GIB,
    contents,
    create,
    creating,
    destroying,
    files_of,
    found_store,
    get,
    store,
    with_stores,
)
from vsphere_events.code import Code
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.request.find_orphans import find_orphans
from vsphere_functions.vsphere.claims_file import Claim

LATER = datetime.now(UTC) + timedelta(hours=2)


def late() -> datetime:
    return LATER


def cut(steps: Generator[Any, None, Any], count: int) -> None:
    """Take some steps and close it as a dying process would."""
    assert len(list(islice(steps, count))) == count
    steps.close()


def links(ctx: Context, **more: Any) -> list[str]:
    return sorted(one.self_link or "" for one in sweep(ctx, **more).orphans)


def link(volume_id: str) -> str:
    return f"vsphere-volume://default/default/{volume_id}"


def test_a_create_that_never_ended_is_left_over_after_an_hour_and_is_swept(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old:
        create(ctx, "whole")
        for volume_id, count in (("claimed", 2), ("made", 5)):
            cut(creating(ctx, volume_id), count)
        assert "claim.json" in contents(ctx)["claimed"]
        assert "made.vmdk" in contents(ctx)["made"]
        assert links(ctx) == []
        assert links(old, least=9999) == []
        found = sweep(old)
        assert [one.self_link for one in found.orphans] == [link("claimed"), link("made")]
        assert all("never ended" in one.reason for one in found.orphans)
        made = next(one.id for one in found.orphans if one.self_link == link("made"))
        swept = sweep(old, delete=[made])
        assert swept.deleted == (made,)
        assert [one.self_link for one in swept.orphans] == [link("claimed")]
        assert contents(ctx).keys() == {"", "claimed", "whole"}
        assert sweep(old, delete=[made]).deleted == (made,)
        assert get(ctx, "whole").state == "ready"


def test_a_destroy_that_never_ended_is_left_over_by_the_date_of_its_disk(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old:
        create(ctx)
        broken = destroying(ctx)
        next(step for step in broken if step.message.endswith("is set aside"))
        broken.close()
        assert links(ctx) == []
        (orphan,) = sweep(old).orphans
        assert "its destroy has begun" in orphan.reason
        assert sweep(old, delete=[orphan.id]).deleted == (orphan.id,)
        assert "data-1" not in contents(ctx)


def test_nothing_that_may_hold_data_is_left_over(vcenter: SimulatedVCenter) -> None:
    """A whole volume that nothing has, a disk without a claim or from before it, a claim that nobody can read."""
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old, Soap(vcenter) as soap:
        create(ctx, "whole")
        files, folder = files_of(ctx), found_store(ctx).folder
        for volume_id in ("unclaimed", "found", "garbled"):
            files.make_folder(folder / volume_id)
            soap.create_disk(str(folder / volume_id / f"{volume_id}.vmdk"))
        claim = Claim("theirs", GIB, "x", "2020-01-01T00:00:00+00:00", found=True)
        files.write(folder / "found" / "claim.json", claim.render())
        files.write(folder / "garbled" / "claim.json", b"{")
        files.make_folder(folder / "undated")
        files.write(folder / "undated" / "claim.json", Claim("theirs", GIB, "x", "once").render())
        assert links(old) == []


def test_what_is_held_is_not_swept(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old, Soap(vcenter) as soap:
        cut(creating(ctx), 5)
        (orphan,) = sweep(old).orphans
        disk = found_store(ctx).folder / "data-1" / "data-1.vmdk"
        soap.attach(soap.clone("holder"), str(disk))
        found = sweep(old, delete=[orphan.id])
        assert found.deleted == ()
        assert "not deleted: volume 'data-1' is in use by holder" in found.orphans[0].reason
        assert "data-1.vmdk" in contents(ctx)["data-1"]


def test_what_changes_before_its_turn_is_left_alone(vcenter: SimulatedVCenter) -> None:
    """While one is swept, another request takes the other's claim over."""
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old:
        for volume_id in ("data-1", "data-2"):
            cut(creating(ctx, volume_id), 5)
        ids = [one.id for one in sweep(old).orphans]
        steps = find_orphans(begun(delete=ids), old)
        next(step for step in steps if step.message.endswith("is set aside"))
        (other,) = (name for name, files in contents(ctx).items() if f"{name}.vmdk" in files)
        claim = Claim("another", GIB, "x", "2020-01-01T00:00:00+00:00")
        files_of(ctx).write(found_store(ctx).folder / other / "claim.json", claim.render())
        found = end(steps)
        assert len(found.deleted) == 1
        (left,) = found.orphans
        assert left.self_link == link(other)
        assert left.reason.endswith("not deleted: it has changed since it was found")
        assert f"{other}.vmdk" in contents(ctx)[other]


def test_a_store_that_is_out_of_reach_is_told(vcenter: SimulatedVCenter) -> None:
    with with_stores(vcenter, store(), store("gone", "[nowhere] vols"), clock=late) as ctx:
        cut(creating(ctx), 5)
        found = sweep(ctx, delete=["volume/gone/data-1/0123456789ab"])
        assert (found.unknown, found.deleted) == (("store gone",), ())
        assert error_of(sweep, ctx, delete=["volume/none/a/0123456789ab"]).code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("destroyed", [False, True])
@pytest.mark.parametrize("count", range(1, 9))
def test_a_sweep_that_was_interrupted_is_ended_by_the_next_delivery(
    shared_vcenter: SimulatedVCenter, count: int, destroyed: bool
) -> None:
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter, clock=late) as old:
        volume_id = f"data-{count}"
        if destroyed:
            create(ctx, volume_id)
            next(step for step in destroying(ctx, volume_id) if step.message.endswith("is set aside"))
        else:
            cut(creating(ctx, volume_id), 5)
        (orphan,) = sweep(old).orphans
        first = find_orphans(begun(delete=[orphan.id]), old)
        list(islice(first, count))
        first.close()
        assert sweep(old, delete=[orphan.id]).deleted == (orphan.id,)
        assert contents(ctx) == {"": []}


def test_a_whole_volume_with_what_a_destroy_has_left_beside_it_is_none(vcenter: SimulatedVCenter) -> None:
    """A disk that was put back, from a backup perhaps."""
    with with_stores(vcenter) as ctx, with_stores(vcenter, clock=late) as old, Soap(vcenter) as soap:
        create(ctx)
        folder = found_store(ctx).folder / "data-1"
        soap.create_disk(str(folder / "_doomed.vmdk"))
        assert links(old) == []
        soap.move_disk(str(folder / "data-1.vmdk"), "[LocalDS_0] away.vmdk")
        assert links(old) == [link("data-1")]
