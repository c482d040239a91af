"""Another owner's machine stays as it is, whatever a request says of it, for every function that acts on machines."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from events.requests import MINIMAL
from support.machines import OTHERS, OWNER, SPEC, TAGS, create, end, info
from support.volumes import create as create_volume
from support.volumes import with_stores
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.catalogue import CATALOGUE, UNDO
from vsphere_functions.vsphere.identity import instance_uuid

PATH = "/DC0/vm/demo/machines/theirs"
ABOUT_MACHINES = [
    name
    for name, one in FUNCTIONS.items()
    if "provider_spec" in one.request.model_fields and name in CATALOGUE
]
SAYS: dict[str, set[str]] = {
    "nothing": set(),
    "its providerID": {"providerID"},
    "a state that names it": {"lastKnownState"},
    "both": {"providerID", "lastKnownState"},
}


@dataclass(frozen=True)
class Theirs:
    """The machine, and all that can be known of it."""

    ctx: Context
    vcenter: SimulatedVCenter
    provider_id: str
    state: dict[str, str]

    def seen(self) -> str:
        """All of it, as another client sees it."""
        found = info(self.vcenter, PATH)
        return json.dumps(
            {key: found[key] for key in ("name", "config", "layoutEx")} | {"on": self.power(found)}
        )

    def power(self, found: Any) -> str:
        power: str = found["runtime"]["powerState"]
        return power

    def forged(self, name: str = "theirs") -> str:
        """The state that their own create told, as one of a machine of ours."""
        identity = OWNER if name == OWNER else instance_uuid(OWNER, name)
        more = {"instanceUuid": identity, "phase": "clone", "task": self.task()}
        disks = [{"vmdkPath": disk} for disk in ("\ud800", f"[we ird (1)] {name}/{name}.vmdk")]
        return json.dumps(self.state | more | {"detached": json.dumps(disks)})

    def task(self) -> str:
        """Their latest task."""
        ref = info(self.vcenter, PATH)["recentTask"]
        return str(ref[-1]["value"]) if ref else "task-1"


@pytest.fixture(scope="module")
def theirs(shared_vcenter: SimulatedVCenter) -> Iterator[Theirs]:
    with with_stores(shared_vcenter) as ctx:
        made = create(ctx, "theirs", tags=OTHERS)
        create(ctx, "ours")
        create_volume(ctx, "data-1")
        yield Theirs(ctx, shared_vcenter, str(made.provider_id), json.loads(made.last_known_state or ""))


def run(function: str, data: dict[str, Any], ctx: Context, *, undo: bool = False) -> Any:
    """Run a function to its result, or to the code of its refusal."""
    request = FUNCTIONS[function].request.parse(data)
    try:
        outcome = (UNDO if undo else CATALOGUE)[function](request, ctx)
        return end(outcome) if isinstance(outcome, Generator) else outcome
    except CallError as error:
        return error.code


def told(function: str, theirs: Theirs, says: set[str]) -> dict[str, Any]:
    """A request of ours about a machine of their name, and what it claims to know."""
    fields = {field.alias for field in FUNCTIONS[function].request.model_fields.values()}
    spec = SPEC if "templateVM" in MINIMAL[function]["providerSpec"] else {"tags": TAGS}
    knows = {"providerID": theirs.provider_id, "lastKnownState": theirs.forged()}
    data = MINIMAL[function] | {"providerSpec": spec}
    data |= {"machineName": "theirs"} if "machineName" in fields else {}
    return data | {name: knows[name] for name in says & fields}


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("function", ABOUT_MACHINES)
def test_no_function_touches_it(theirs: Theirs, function: str, says: str) -> None:
    before = theirs.seen()
    said = run(function, told(function, theirs, SAYS[says]), theirs.ctx)
    assert theirs.provider_id not in str(said) + repr(said)
    assert theirs.seen() == before


@pytest.mark.parametrize("function", [name for name in ABOUT_MACHINES if name in UNDO])
def test_an_undo_with_a_forged_state_does_not_either(theirs: Theirs, function: str) -> None:
    before = theirs.seen()
    run(function, told(function, theirs, {"lastKnownState"}), theirs.ctx, undo=True)
    assert theirs.seen() == before


@pytest.mark.parametrize("age", [0, 60])
def test_a_sweep_deletes_no_machine_that_it_could_not_have_named(theirs: Theirs, age: int) -> None:
    ref, uuid = theirs.state["vm"], theirs.provider_id.rpartition("/")[2]
    for owned in ("theirs", "ours"):
        before = theirs.seen()
        data = {
            "providerSpec": {"tags": TAGS},
            "machines": [{"machineName": "ours"}],
            "minAgeSeconds": age,
            "delete": [f"machine/{ref}/{uuid}/{owned}"],
            "lastKnownState": theirs.forged(OWNER),
        }
        run("find_orphans", data, theirs.ctx)
        assert theirs.seen() == before


def test_their_disks_go_to_no_machine_of_ours(theirs: Theirs) -> None:
    before = theirs.seen()
    disks = [
        device["backing"]["fileName"]
        for device in json.loads(before)["config"]["hardware"]["device"]
        if "capacityInKB" in device
    ]
    for disk in disks:
        for function in ("attach_volume", "detach_volume"):
            data = {"machineName": "ours", "providerSpec": {"tags": TAGS}, "vmdkPath": disk}
            run(function, data, theirs.ctx)
        request = {"machineName": "ours-2", "providerSpec": SPEC | {"volumes": [{"vmdkPath": disk}]}}
        assert str(run("create_machine", request, theirs.ctx)) == "FailedPrecondition"
    assert disks
    assert theirs.seen() == before
    mine = json.dumps(info(theirs.vcenter, PATH.replace("theirs", "ours"))["config"]["hardware"])
    assert not [disk for disk in disks if disk in mine]


def test_a_state_with_what_cannot_be_sent_on_does_not_break_a_delete(theirs: Theirs) -> None:
    """M03: half a surrogate pair has no UTF-8, so a result that told of it could not be rendered."""
    create(theirs.ctx, "short-lived")
    state = theirs.state | {"instanceUuid": instance_uuid(OWNER, "short-lived"), "phase": "detach"}
    state["detached"] = '[{"vmdkPath": "\\ud800"}]'
    data = {"machineName": "short-lived", "providerSpec": {"tags": TAGS}, "lastKnownState": json.dumps(state)}
    gone = run("delete_machine", data, theirs.ctx)
    assert gone.detached_volumes == ()
    json.dumps(gone.wire(), ensure_ascii=False).encode()
