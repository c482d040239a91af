"""No change of the vCenter without a look at the fence: each function, from its first call to its last."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from support import machines, volumes
from support.gateway import error_of, opened
from support.orphans import sweep
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine, undo_create_machine
from vsphere_functions.runtime.catalogue import CATALOGUE
from vsphere_functions.vsphere.fence import Unfenced
from vsphere_functions.vsphere.files import DatastorePath, Files
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import SERVICE
from vsphere_functions.vsphere.vcenter import VCenter

READS = {
    *("Login", "RetrieveServiceContent", "CurrentTime", "CreateContainerView", "DestroyView"),
    *(
        "RetrievePropertiesEx",
        "ContinueRetrievePropertiesEx",
        "CancelRetrievePropertiesEx",
        "RetrieveProperties",
    ),
    *("FindAllByUuid", "FindByInventoryPath", "FindByUuid", "FindChild", "QueryVirtualDiskUuid"),
    *("SearchDatastore_Task", "SearchDatastoreSubFolders_Task", "QueryConfigOption", "QueryConfigOptionEx"),
    *(
        "RecommendDatastores",
        "QueryVirtualDiskInfo_Task",
        "QueryNames",
        "AcquireGenericServiceTicket",
        "HasUserPrivilegeOnEntities",
    ),
}
"""What changes nothing; any other method counts as a change."""


MAKER = "one request"


class Watched:
    """A fence that counts the changes between one look at it and the next."""

    def __init__(self, vcenter: SimulatedVCenter) -> None:
        self._vcenter = vcenter
        self.looks = 0
        self.most = 0
        self._seen = self._changes()

    def check(self) -> None:
        self._count(allowed=self.looks > 0)
        self.looks += 1

    def confirm(self) -> None:
        """Look without leave to change anything more."""

    def end(self) -> None:
        self._count(allowed=self.looks > 0)

    def _count(self, *, allowed: bool) -> None:
        now = self._changes()
        made = now - self._seen
        assert made.total() <= allowed, f"changes without a look at the fence: {dict(made)}"
        self.most += made.total()
        self._seen = now

    def _changes(self) -> Counter[str]:
        return Counter({name: n for name, n in self._vcenter.control.calls().items() if name not in READS})


@contextmanager
def watched(vcenter: SimulatedVCenter) -> Iterator[tuple[Context, Watched]]:
    fence = Watched(vcenter)
    with volumes.with_stores(vcenter, fence=fence, maker=MAKER) as ctx:
        yield ctx, fence
        fence.end()


def machine(ctx: Context) -> None:
    machines.create(ctx)


def volume(ctx: Context) -> None:
    volumes.create(ctx)


def both(ctx: Context) -> None:
    machine(ctx)
    volume(ctx)


def attached(ctx: Context) -> None:
    both(ctx)
    volumes.attach(ctx)


def half_built(ctx: Context) -> None:
    began = create_machine(machines.creation(), ctx)
    while next(began).phase != "record_birth":
        pass
    began.close()


def undo(ctx: Context) -> None:
    machines.end(undo_create_machine(machines.creation(), ctx))


def two(ctx: Context) -> None:
    machines.create(ctx)
    machines.create(ctx, "worker-2")


def swept(ctx: Context) -> None:
    (orphan,) = sweep(ctx, "worker-1").orphans
    assert sweep(ctx, "worker-1", delete=[orphan.id]).deleted


CASES: dict[str, tuple[Callable[[Context], Any], Callable[[Context], Any]]] = {
    "create_machine": (lambda _: None, machines.create),
    "create_machine, undone": (half_built, undo),
    "initialize_machine": (half_built, machines.initialize),
    "delete_machine": (attached, machines.delete),
    "shut_down_machine": (machine, lambda ctx: machines.shut_down(ctx, mode="hard")),
    "create_volume": (lambda _: None, volumes.create),
    "destroy_volume": (volume, volumes.destroy),
    "attach_volume": (both, volumes.attach),
    "detach_volume": (attached, volumes.detach),
    "resize_volume": (volume, lambda ctx: volumes.resize(ctx, 3 * volumes.GIB)),
    "resize_volume, attached": (attached, lambda ctx: volumes.resize(ctx, 3 * volumes.GIB)),
    "find_orphans": (two, swept),
    "copy_volume": (volume, volumes.duplicate),
}


def test_no_function_that_changes_the_vcenter_is_left_out() -> None:
    changing = {name for name in CATALOGUE if FUNCTIONS[name].changes}
    assert changing - {"cancel_request"} <= CASES.keys(), "cancel_request changes a record"


@pytest.mark.parametrize("function", CASES)
def test_each_change_is_preceded_by_a_look_at_the_fence(vcenter: SimulatedVCenter, function: str) -> None:
    """E22: of each mutating call, not of a function as a whole."""
    prepare, act = CASES[function]
    with volumes.with_stores(vcenter, maker=MAKER) as ctx:
        prepare(ctx)
    with watched(vcenter) as (ctx, fence):
        act(ctx)
    assert fence.looks
    assert fence.most


class Expiring:
    """A lease that runs out after a while."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def check(self) -> None:
        if time.monotonic() > self.until:
            raise CallError(Code.ABORTED, "the lease has run out")

    def confirm(self) -> None:
        self.check()


def make_folder(vcenter: VCenter, center: Ref) -> None:
    manager = vcenter.session.content["fileManager"]
    vcenter.change("make_folder", manager, "MakeDirectory", name="[LocalDS_0] late", datacenter=center)


def write_file(vcenter: VCenter, center: Ref) -> None:
    files = Files(vcenter, center, "DC0", Ref("HostDatastoreBrowser", "-"))
    files.write(DatastorePath("LocalDS_0", ("late",)), b"late")


@pytest.mark.parametrize("change", [make_folder, write_file])
def test_e22_a_change_that_waits_longer_for_its_connection_than_its_lease_lasts_is_not_made(
    vcenter: SimulatedVCenter, change: Callable[[VCenter, Ref], None]
) -> None:
    with opened(vcenter, pool=1) as session, ThreadPoolExecutor(1) as threads:
        center = next(iter(session.scan({"Datacenter": ["name"]})))
        vcenter.control.delay(CurrentTime=1000)
        vcenter.control.reset_calls()
        fence = Expiring(0.5)
        slow = threads.submit(session.call, SERVICE, "CurrentTime", repeatable=True)
        while not vcenter.control.calls()["CurrentTime"]:
            assert not slow.done()
        assert error_of(change, VCenter("default", session, fence), center).code is Code.ABORTED
        assert slow.result()
        assert not vcenter.control.calls()["MakeDirectory"]
        files = Files(
            VCenter("default", session, Unfenced()), center, "DC0", Ref("HostDatastoreBrowser", "-")
        )
        assert files.read(DatastorePath("LocalDS_0", ("late",))) is None
