"""Creates and destroys that end after any of their steps, as those of a worker that was killed do."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from support.gateway import error_of
from support.volumes import (
    contents,
    create,
    creating,
    destroy,
    destroying,
    files_of,
    found_store,
    get,
    listing,
    store,
    with_stores,
)
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.volumes import browse

STEPS = range(13)
"""How many steps are taken before the end comes; the last of these is past the end."""


def killed(steps: Generator[Any, None, Any], count: int) -> bool:
    """Take some steps and close it as a dying process would; say whether there were more to come."""
    taken = len(list(islice(steps, count)))
    steps.close()
    return taken == count


def whole(ctx: Context, volume_id: str) -> None:
    """A volume stands, and nothing else is in its folder."""
    assert get(ctx, volume_id).state == "ready"
    assert contents(ctx)[volume_id] == [f"{volume_id}-flat.vmdk", f"{volume_id}.vmdk", "volume.json"]


def test_there_are_no_more_steps_than_are_tried(shared_vcenter: SimulatedVCenter) -> None:
    with with_stores(shared_vcenter) as ctx:
        for steps in (creating(ctx, "count"), destroying(ctx, "count")):
            assert not killed(steps, STEPS[-1])


@pytest.mark.parametrize("count", STEPS)
def test_a_create_that_was_killed_is_finished_by_its_next_delivery(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    with with_stores(shared_vcenter) as ctx:
        volume_id = f"again-{count}"
        killed(creating(ctx, volume_id), count)
        made = create(ctx, volume_id)
        assert get(ctx, volume_id) == made
        whole(ctx, volume_id)


@pytest.mark.parametrize("count", STEPS)
def test_a_create_that_was_killed_is_finished_by_another_once_its_claim_is_old(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    volume_id = f"other-{count}"
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter, clock=lambda: later) as late:
        killed(creating(ctx, volume_id, info={"a": "QQ=="}), count)
        assert create(late, volume_id, info={"a": "QQ=="}).info == {"a": "QQ=="}
        whole(ctx, volume_id)


@pytest.mark.parametrize("count", STEPS)
def test_a_create_that_was_killed_breaks_no_list_and_is_swept_by_destroy(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    later = datetime.now(UTC) + timedelta(hours=2)
    volume_id = f"swept-{count}"
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter, clock=lambda: later) as late:
        killed(creating(ctx, volume_id), count)
        listed = listing(ctx)
        assert [one.tag for one in (*listed.volumes, *listed.degraded)].count(volume_id) == (count > 0)
        destroy(late, volume_id)
        assert volume_id not in contents(ctx)
        create(ctx, volume_id)
        whole(ctx, volume_id)


@pytest.mark.parametrize("count", STEPS)
def test_a_destroy_that_was_killed_is_finished_by_the_next(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    volume_id = f"gone-{count}"
    with with_stores(shared_vcenter) as ctx, with_stores(shared_vcenter) as other:
        create(ctx, volume_id)
        killed(destroying(ctx, volume_id), count)
        listing(ctx)
        destroy(other, volume_id)
        assert volume_id not in contents(ctx)
        assert error_of(get, ctx, volume_id).code is Code.NOT_FOUND


@pytest.mark.parametrize("count", STEPS)
def test_a_create_after_a_destroy_that_was_killed_makes_no_twin_of_what_is_left(
    shared_vcenter: SimulatedVCenter, count: int
) -> None:
    volume_id = f"twin-{count}"
    refused: list[Code] = []
    with with_stores(shared_vcenter) as ctx:
        create(ctx, volume_id)
        killed(destroying(ctx, volume_id), count)
        try:
            create(ctx, volume_id)
        except CallError as error:
            refused.append(error.code)
            destroy(ctx, volume_id)
            create(ctx, volume_id)
        whole(ctx, volume_id)
    assert refused in ([], [Code.FAILED_PRECONDITION])


def test_a_create_whose_undoing_was_cut_short_is_finished_by_its_next_delivery(
    shared_vcenter: SimulatedVCenter,
) -> None:
    """Nobody has asked for a destroy then; what was never whole is no volume that could be lost."""
    volume_id = "undone"
    with with_stores(shared_vcenter) as ctx:
        making = creating(ctx, volume_id)
        while f"{volume_id}.vmdk" not in contents(ctx).get(volume_id, []):
            next(making)
        making.close()
        leaf = browse(found_store(ctx))[0][volume_id]
        list(leaf.store.files.move_disk(leaf.disk, leaf.doomed, State.of(None, "", "")))
        create(ctx, volume_id)
        whole(ctx, volume_id)


def test_creates_of_few_ids_from_many_threads_leave_whole_volumes(
    vcenter: SimulatedVCenter,
) -> None:
    """Without leases over them: what one of them says is retryable is tried again."""
    with (
        with_stores(vcenter, store()) as one,
        with_stores(vcenter, store()) as other,
        ThreadPoolExecutor(6) as pool,
    ):

        def life(number: int) -> None:
            ctx, volume_id = (one, other)[number % 2], f"data-{number % 3}"
            for _ in range(100):
                try:
                    create(ctx, volume_id)
                except CallError as error:
                    assert error.code.retryable, error  # noqa: PT017 - the loop goes on with the others
                else:
                    return
            raise AssertionError(f"{volume_id} stays busy")

        list(pool.map(life, range(12)))
        assert contents(one).keys() == {"", "data-0", "data-1", "data-2"}
        assert [one_.state for one_ in listing(one).volumes] == ["ready"] * 3
        assert listing(one).degraded == ()


class Between:
    """A fence at which something happens just before the change of that number."""

    def __init__(self, change: int, happens: Callable[[], object]) -> None:
        self._left = change
        self._happens = happens

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._happens()

    def confirm(self) -> None:
        """Nothing to ask."""


@pytest.mark.parametrize(("file", "change"), [("claim.json", 3), ("volume.json", 6)])
def test_v03_of_two_that_put_a_file_there_one_wins(
    shared_vcenter: SimulatedVCenter, file: str, change: int
) -> None:
    """The other one's is there just before ours is moved to its place; the changes before that are not disturbed."""
    volume_id = f"won-{change}"
    with with_stores(shared_vcenter) as ctx:
        create(ctx, "before")  # the store is there
        files, place = files_of(ctx), found_store(ctx).folder / volume_id / file

        fence = Between(change, lambda: files.write(place, b"theirs"))
        with with_stores(shared_vcenter, fence=fence) as late:
            failed = error_of(create, late, volume_id)
        assert failed.code is Code.ABORTED
        assert files.read(place) == b"theirs"


def test_v05_folders_that_another_makes_meanwhile_are_fine(shared_vcenter: SimulatedVCenter) -> None:
    """A vCenter says then that they exist; the simulator would not."""
    config = store("fresh", "[LocalDS_0] fresh")

    def another() -> None:
        files_of(other, "fresh").make_folder(config.folder, parents=True)
        shared_vcenter.control.add_fault("MakeDirectory", "FileAlreadyExists", count=1)

    with with_stores(shared_vcenter, config) as other:
        with with_stores(shared_vcenter, config, fence=Between(2, another)) as ctx:
            assert create(ctx, store="fresh").state == "ready"
        assert contents(other, "fresh").keys() == {"", "data-1"}
