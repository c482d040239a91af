"""Random lives of volumes and machines against a model: whatever is asked, killed or failed, no byte is lost.

`MODEL_STEPS=2000` makes the run as long as one before a release; the suite's own is shorter.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from support.gateway import error_of
from support.machines import end, shut_down
from support.scene import Scene, strip
from support.soap import Soap
from support.volume_model import Half, Key, Made, Model, Standing, Wish
from support.volumes import STORES, contents, destroy, files_of, found_store, get, listing, with_stores
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.volume import Volume
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter

T = TypeVar("T")

STEPS = int(os.environ.get("MODEL_STEPS", "40"))
STEPS_OF_A_LIFE = 30
KEYS: list[Key] = [("default", "a"), ("default", "b"), ("second", "a")]
MACHINES = ["worker-1", "worker-2"]
PATHS = {one.name: str(one.folder) for one in STORES}
SIZES = (1024, 2048, 3072)
INFOS: tuple[tuple[tuple[str, str], ...], ...] = ((), (("k", "QQ=="),))
CHOICES = st.integers(0, 2**20)
NAMED = st.sampled_from(["id", "selfLink", "vmdkPath"])
FIRST = (KEYS[0], KEYS[0], MACHINES[0])
WISHES = [
    *(Wish("create", key, *FIRST[1:], size, info) for key, size, info in product(KEYS, SIZES[:2], INFOS)),
    *(Wish("destroy", key, *FIRST[1:]) for key in KEYS),
    *(Wish("resize", key, *FIRST[1:], size) for key, size in product(KEYS, SIZES)),
    *(Wish("copy", key, to, FIRST[2]) for key, to in product(KEYS, KEYS)),
    *(Wish(what, key, KEYS[0], name) for what, key, name in product(("attach", "detach"), KEYS, MACHINES)),
    *(
        Wish("create_machine", *FIRST[:2], name, volumes=volumes)
        for name, count in product(MACHINES, range(3))
        for volumes in combinations(KEYS, count)
    ),
    *(Wish("delete_machine", *FIRST[:2], name) for name in MACHINES),
]
"""Everything that can be asked."""
FAULTS = st.sampled_from(
    [
        ("MakeDirectory", "call", "SystemError"),
        ("CreateVirtualDisk_Task", "task", "NoDiskSpace"),
        ("CopyVirtualDisk_Task", "task", "NoDiskSpace"),
        ("MoveDatastoreFile_Task", "task", "CannotAccessFile"),
        ("MoveVirtualDisk_Task", "task", "CannotAccessFile"),
        ("DeleteVirtualDisk_Task", "task", "FileLocked"),
        ("DeleteDatastoreFile_Task", "task", "CannotAccessFile"),
        ("ExtendVirtualDisk_Task", "task", "NoDiskSpace"),
        ("QueryVirtualDiskUuid", "call", "SystemError"),
        ("SearchDatastoreSubFolders_Task", "task", "InaccessibleDatastore"),
        ("ReconfigVM_Task", "task", "HostNotConnected"),
        ("CloneVM_Task", "task", "NoDiskSpace"),
        ("Destroy_Task", "task", "ResourceInUse"),
        ("RetrievePropertiesEx", "call", "NotAuthenticated"),
    ]
)
made = {"steps": 0}


class Lives(RuleBasedStateMachine):
    """Wishes that end, that are killed after some steps, and that meet a fault; each is a request of its own."""

    vcenter: SimulatedVCenter

    @initialize()
    def begin(self) -> None:
        self._open = ExitStack()
        self.now = datetime.now(UTC)
        self.ctx = self._open.enter_context(with_stores(self.vcenter, clock=lambda: self.now))
        self.soap = self._open.enter_context(Soap(self.vcenter))
        self.model = Model()

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        self.vcenter.control.clear_faults()
        self.now += timedelta(hours=1)
        for name in [*self.model.machines]:
            self.carry(self.wish("delete_machine", machine=name), self.request())
        self.what_was_written_is_there()
        for store, name in KEYS:
            destroy(self.request(), name, store=store)
        for store in PATHS:
            assert set(contents(self.ctx, store)) <= {""}
        self._open.close()

    @rule(wish=st.sampled_from(WISHES), named=NAMED, stale=st.booleans())
    def ask(self, wish: Wish, named: str, stale: bool) -> None:
        """Anything at all, refused or not."""
        self.carry(replace(wish, named=named, stale=stale), self.request())

    @rule(choice=CHOICES, named=NAMED)
    def do(self, choice: int, named: str = "id") -> None:
        """Something that changes something."""
        self.carry(replace(self.sound(choice), named=named), self.request())

    @rule(choice=CHOICES, steps=st.integers(1, 11), again=st.booleans())
    def kill(self, choice: int, steps: int, again: bool) -> None:
        """A request is cut short; it comes again, or never: then what stands is what was, will be, or unfinished."""
        wish = self.sound(choice)
        _, after = self.model.expected(wish)
        ctx, state = self.request(), None
        begun = wish.begun(ctx, self.model.past.get(wish.machine), None, PATHS)
        for _ in range(steps):
            try:
                state = next(begun).state
            except StopIteration:
                break
        begun.close()
        self.settle()
        if again or wish.what == "delete_machine":
            self.carry(wish, ctx, state)
        elif wish.what == "create_machine":
            self.take_apart(wish, after)
        else:
            self.adopt(after)

    @rule(choice=CHOICES, fault=FAULTS)
    def fail(self, choice: int, fault: tuple[str, Any, str]) -> None:
        """A try with a fault in it ends well or in a code; the next one ends as if nothing had been."""
        wish, ctx = self.sound(choice), self.request()
        method, scope, kind = fault
        self.vcenter.control.add_fault(method, kind, scope=scope, count=1)
        begun, state = wish.begun(ctx, self.model.past.get(wish.machine), None, PATHS), None
        try:
            for step in begun:
                state = step.state
        except CallError as error:
            assert error.code is not Code.INTERNAL, error  # noqa: PT017 - any other code will do
        self.vcenter.control.clear_faults()
        self.settle()
        self.carry(wish, ctx, state)

    @rule(choice=CHOICES, written=st.binary(min_size=1, max_size=64))
    def write(self, choice: int, written: bytes) -> None:
        """A guest writes; here as below, without anything to do it to, something else is done."""
        if not self.model.volumes:
            return self.do(choice)
        key = one_of(sorted(self.model.volumes), choice)
        files_of(self.ctx, key[0]).write(self.extent(key), written)
        self.model.volumes[key] = replace(self.model.volumes[key], data=written)
        return None

    @rule(choice=CHOICES)
    def part_behind_our_back(self, choice: int) -> None:
        """Another client takes all volumes off a machine."""
        having = {one.on for one in self.model.volumes.values() if one.on}
        if not having:
            return self.do(choice)
        name = one_of(sorted(having), choice)
        strip(Scene(self.ctx, self.vcenter, self.soap, ""), name)
        return self.model.part(name)

    @rule(choice=CHOICES)
    def stop(self, choice: int) -> None:
        """A machine is shut down."""
        running = [name for name, one in self.model.machines.items() if one.on]
        if not running:
            return self.do(choice)
        name = one_of(sorted(running), choice)
        shut_down(self.request(), name, mode="hard")
        self.model.machines[name] = replace(self.model.machines[name], on=False)
        return None

    @rule(choice=CHOICES)
    def time_passes(self, choice: int) -> None:
        """Claims of requests that never came again become old."""
        if not self.model.halves:
            return self.do(choice)
        self.now += timedelta(minutes=30)
        self.model.halves = {key: replace(half, claimed=False) for key, half in self.model.halves.items()}
        return None

    @invariant()
    def the_list_is_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        made["steps"] += 1
        found = listing(self.ctx)
        shown = {key_of(one): (one.capacity_kb, one.info, one.attached_to) for one in found.volumes}
        assert shown == {key: one.shown for key, one in self.model.volumes.items()}
        assert {key_of(one) for one in found.degraded} == self.model.halves.keys()
        assert found.unreachable_stores == ()

    @invariant()
    def what_was_written_is_there(self) -> None:
        if hasattr(self, "model"):
            for key, standing in self.model.volumes.items():
                assert files_of(self.ctx, key[0]).read(self.extent(key)) == standing.data

    def sound(self, choice: int) -> Wish:
        """Choose a wish that changes something as things stand, each kind as often as any other."""
        kinds: dict[str, list[Wish]] = {}
        for wish in WISHES:
            if self.model.changed_by(wish):
                kinds.setdefault(wish.what, []).append(wish)
        rest, kind = divmod(choice, len(kinds))
        return one_of(kinds[sorted(kinds)[kind]], rest)

    def carry(self, wish: Wish, ctx: Context, state: str | None = None) -> None:
        """Do it to its end, which is what the model says, and let the model follow."""
        code, after = self.model.expected(wish)
        begun = wish.begun(ctx, self.model.past.get(wish.machine), state, PATHS)
        if code is not Code.OK:
            found = error_of(end, begun)
            assert found.code is code, found
            return
        result = end(begun)
        if wish.of_machine:
            self.follow_machine(wish, result, after)
        for key, standing in after.items():
            self.set(key, standing)

    def follow_machine(self, wish: Wish, result: Any, after: dict[Key, Standing | None]) -> None:
        """See that a machine is the one that stood, or that what it had is told."""
        standing = self.model.machines.get(wish.machine)
        if wish.what == "create_machine":
            if standing is not None:
                assert result.provider_id == standing.provider_id
            self.model.machines.setdefault(wish.machine, Made(result.provider_id, wish.volumes))
            return
        links = {one.self_link for one in result.detached_volumes}
        assert links == {f"vsphere-volume://default/{store}/{name}" for store, name in after}
        if standing is not None and not (wish.stale and wish.machine in self.model.past):
            del self.model.machines[wish.machine]
            self.model.past[wish.machine] = standing.provider_id

    def take_apart(self, wish: Wish, after: dict[Key, Standing | None]) -> None:
        """Delete a machine that was not finished: it may have some of its volumes already."""
        gone = end(self.wish("delete_machine", machine=wish.machine).begun(self.request(), None, None, PATHS))
        links = {f"vsphere-volume://default/{store}/{name}" for store, name in after}
        assert {one.self_link for one in gone.detached_volumes} <= links

    def adopt(self, after: dict[Key, Standing | None]) -> None:
        """Take what stands for what is, if it is what was before or what is to be, or unfinished between them."""
        for key, standing in after.items():
            outcomes = [self.model.volumes.get(key), standing]
            shown = self.shown(key)
            if isinstance(shown, Half):
                assert None in outcomes
                self.model.volumes.pop(key, None)
                self.model.halves[key] = shown
            elif shown is None:
                assert None in outcomes
                self.set(key, None)
            else:
                (now, *_) = [one for one in outcomes if one is not None and one.shown == shown]
                self.set(key, now)

    def shown(self, key: Key) -> Half | tuple[int | None, dict[str, str], tuple[str, ...]] | None:
        """Look at a volume past the model."""
        store, name = key
        try:
            volume = get(self.request(), name, store=store)
        except CallError as error:
            assert error.code is Code.NOT_FOUND, error  # noqa: PT017 - it may be there, too
            return None
        if volume.state == "ready":
            return volume.capacity_kb, volume.info, volume.attached_to
        names = frozenset(contents(self.ctx, store)[name])
        return Half(names, claimed="claim.json" in names)

    def set(self, key: Key, standing: Standing | None) -> None:
        self.model.halves.pop(key, None)
        if standing is None:
            self.model.volumes.pop(key, None)
        else:
            self.model.volumes[key] = standing

    def request(self) -> Context:
        """A context for another request."""
        return replace(self.ctx, operation=str(uuid4()), maker=uuid4().hex)

    def wish(self, what: str, *, machine: str) -> Wish:
        return Wish(what, KEYS[0], KEYS[0], machine)

    def extent(self, key: Key) -> Any:
        """The file that holds a volume's bytes."""
        store, name = key
        return found_store(self.ctx, store).folder / name / f"{name}-flat.vmdk"

    def settle(self) -> None:
        """Let the tasks of what was cut short end."""
        vcenter = self.ctx.vcenter()
        manager = vcenter.session.content["taskManager"]
        waiting = vcenter.read([manager], {manager.type: ["recentTask"]})[manager].get("recentTask", [])
        while waiting:
            rows = vcenter.read(waiting, {"Task": ["info.state"]})
            waiting = [ref for ref, row in rows.items() if row.get("info.state") in {"queued", "running"}]


def one_of(all_of_them: Sequence[T], choice: int) -> T:
    """Choose one of however many: what Hypothesis draws must not depend on what stands."""
    return all_of_them[choice % len(all_of_them)]


def key_of(volume: Volume) -> Key:
    """The key in a volume's link."""
    _, _, rest = (volume.self_link or "").partition("//default/")
    store, _, name = rest.partition("/")
    return store, name


@pytest.fixture
def lives(vcenter: SimulatedVCenter) -> Iterator[type[Lives]]:
    Lives.vcenter = vcenter
    yield Lives
    del Lives.vcenter


@pytest.mark.timeout(3600)
def test_whatever_happens_no_volume_is_lost(lives: type[Lives], record_property: Any) -> None:
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=max(STEPS // 20, 1),  # some lives end early
            stateful_step_count=STEPS_OF_A_LIFE,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    record_property("steps", made["steps"])
