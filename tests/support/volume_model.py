"""A model of volumes and machines: what a wish about them should end in, and what should stand then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from support import machines
from support.volumes import attaching, creating, destroying, detaching, duplicating, resizing
from vsphere_events.code import Code
from vsphere_events.provider_id import ProviderID
from vsphere_functions.context import Context
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.machine.delete_machine import delete_machine

Key = tuple[str, str]
"""A store and an id."""

_DISKS = count(1)


@dataclass(frozen=True)
class Standing:
    """A whole volume; `disk` tells its disk from all others, `origin` is the disk that it is a copy of."""

    capacity_kb: int
    info: tuple[tuple[str, str], ...]
    data: bytes = b""
    on: str | None = None
    origin: int | None = None
    disk: int = field(default_factory=lambda: next(_DISKS))

    @property
    def shown(self) -> tuple[int, dict[str, str], tuple[str, ...]]:
        """What an answer says of it."""
        return self.capacity_kb, dict(self.info), (self.on,) if self.on else ()


@dataclass(frozen=True)
class Half:
    """A volume that is not whole: the names in its folder, and whether its claim holds against others."""

    names: frozenset[str]
    claimed: bool

    @property
    def unborn(self) -> bool:
        """Whether somebody is taken to be making it."""
        return self.claimed and "volume.json" not in self.names


@dataclass(frozen=True)
class Made:
    """A machine."""

    provider_id: ProviderID
    volumes: tuple[Key, ...]
    on: bool = True


@dataclass(frozen=True)
class Wish:
    """Something to be done; each kind looks at what it needs. `stale`: with a providerID of times past."""

    what: str
    key: Key
    to: Key
    machine: str
    size: int = 1024
    info: tuple[tuple[str, str], ...] = ()
    named: str = "id"
    volumes: tuple[Key, ...] = ()
    stale: bool = False

    @property
    def of_machine(self) -> bool:
        """Whether it is about a machine as a whole."""
        return self.what in {"create_machine", "delete_machine"}

    def begun(
        self, ctx: Context, past: ProviderID | None, state: str | None, paths: Mapping[str, str]
    ) -> Any:
        """Begin it: a generator of steps. `paths` are the folders of stores."""
        store, name = self.key
        more: dict[str, Any] = {"providerID": str(past)} if self.stale and past else {}
        more |= {"lastKnownState": state} if state else {}
        if self.what == "create_machine":
            volumes = [{"id": name, "store": store} for store, name in self.volumes]
            return create_machine(machines.creation(self.machine, state, volumes=volumes or None), ctx)
        if self.what == "delete_machine":
            return delete_machine(machines.deletion(self.machine, **more), ctx)
        named: dict[str, Any] = {"id": name, "store": store}
        if self.named == "selfLink":
            named = {"selfLink": f"vsphere-volume://default/{store}/{name}"}
        if self.what in {"attach", "detach"}:
            if self.named == "vmdkPath":
                named = {"vmdkPath": f"{paths[store]}/{name}/{name}.vmdk"}
            bring = {"attach": attaching, "detach": detaching}[self.what]
            return bring(ctx, None, self.machine, **named, **more)
        begin: dict[str, Callable[[], Any]] = {
            "create": lambda: creating(ctx, name, store=store, capacityKB=self.size, info=dict(self.info)),
            "destroy": lambda: destroying(ctx, None, **named),
            "resize": lambda: resizing(ctx, self.size, None, **named),
            "copy": lambda: duplicating(ctx, self.to[1], None, toStore=self.to[0], **named),
        }
        return begin[self.what]()


@dataclass
class Model:
    """What should stand."""

    volumes: dict[Key, Standing] = field(default_factory=dict)
    halves: dict[Key, Half] = field(default_factory=dict)
    machines: dict[str, Made] = field(default_factory=dict)
    past: dict[str, ProviderID] = field(default_factory=dict)

    def expected(self, wish: Wish) -> tuple[Code, dict[Key, Standing | None]]:
        """Say what a wish ends in, and which volumes are others then."""
        judge: Callable[[Wish], Code | dict[Key, Standing | None]] = getattr(self, f"_{wish.what}")
        outcome = judge(wish)
        return (outcome, {}) if isinstance(outcome, Code) else (Code.OK, outcome)

    def changed_by(self, wish: Wish) -> bool:
        """Say whether a wish changes anything."""
        code, after = self.expected(wish)
        if wish.of_machine:
            return code is Code.OK and (wish.machine in self.machines) is (wish.what == "delete_machine")
        return code is Code.OK and any(self.volumes.get(key) != one for key, one in after.items())

    def part(self, name: str) -> None:
        """Take all volumes off a machine."""
        for key, standing in self.volumes.items():
            if standing.on == name:
                self.volumes[key] = replace(standing, on=None)

    def whole(self, key: Key) -> Standing | Code:
        """Return a volume that something can be done with, or why there is none."""
        half = self.halves.get(key)
        if half is not None:
            return Code.ABORTED if half.unborn else Code.FAILED_PRECONDITION
        return self.volumes.get(key) or Code.NOT_FOUND

    def free(self, key: Key) -> Code | None:
        """Say why nothing can be made there."""
        half = self.halves.get(key)
        if half is None:
            return None
        if half.names & {"_doomed.vmdk", "volume.json"}:
            return Code.FAILED_PRECONDITION
        return Code.ABORTED if half.claimed else None

    def _create(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        standing, wanted = self.volumes.get(wish.key), Standing(wish.size, wish.info)
        if standing is None:
            return self.free(wish.key) or {wish.key: wanted}
        same = (standing.capacity_kb, standing.info) == (wanted.capacity_kb, wanted.info)
        return {} if same else Code.ALREADY_EXISTS

    def _destroy(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        half, standing = self.halves.get(wish.key), self.volumes.get(wish.key)
        if half is not None and half.unborn:
            return Code.ABORTED
        if standing is not None and standing.on:
            return Code.FAILED_PRECONDITION
        return {wish.key: None} if half or standing else {}

    def _resize(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        standing = self.whole(wish.key)
        if isinstance(standing, Code):
            return standing
        if wish.size < standing.capacity_kb:
            return Code.INVALID_ARGUMENT
        return {wish.key: replace(standing, capacity_kb=wish.size)}

    def _copy(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        if wish.key == wish.to:
            return Code.INVALID_ARGUMENT
        source, there = self.whole(wish.key), self.volumes.get(wish.to)
        if isinstance(source, Code):
            return source
        if there is not None:
            same = (there.capacity_kb, there.info, there.origin) == (
                source.capacity_kb,
                source.info,
                source.disk,
            )
            return {} if same else Code.ALREADY_EXISTS
        half = self.halves.get(wish.to)
        if not (half and "volume.json" in half.names) and source.on and self.machines[source.on].on:
            return Code.FAILED_PRECONDITION
        copy = Standing(source.capacity_kb, source.info, source.data, origin=source.disk)
        return self.free(wish.to) or {wish.to: copy}

    def _attach(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        return self._brought(wish, wish.machine)

    def _detach(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        return self._brought(wish, None)

    def _brought(self, wish: Wish, to: str | None) -> Code | dict[Key, Standing | None]:
        if wish.machine not in self.machines or (wish.stale and wish.machine in self.past):
            return Code.NOT_FOUND
        half, standing = self.halves.get(wish.key), self.volumes.get(wish.key)
        if standing is None:
            if half is None or not half.names:
                return Code.NOT_FOUND
            return Code.FAILED_PRECONDITION if to else {}
        if standing.on not in {None, wish.machine}:
            return Code.FAILED_PRECONDITION if to else {}
        return {wish.key: replace(standing, on=to)}

    def _create_machine(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        made = self.machines.get(wish.machine)
        if made is not None:
            return {} if made.volumes == wish.volumes else Code.ALREADY_EXISTS
        after: dict[Key, Standing | None] = {}
        refused = False
        for key in wish.volumes:
            half, standing = self.halves.get(key), self.volumes.get(key)
            if standing is None and (half is None or not half.names):
                return Code.INVALID_ARGUMENT
            if standing is None or standing.on:
                refused = True
            else:
                after[key] = replace(standing, on=wish.machine)
        return Code.FAILED_PRECONDITION if refused else after

    def _delete_machine(self, wish: Wish) -> Code | dict[Key, Standing | None]:
        if wish.stale and wish.machine in self.past:
            return {}
        return {
            key: replace(standing, on=None)
            for key, standing in self.volumes.items()
            if standing.on == wish.machine
        }
