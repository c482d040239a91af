"""Random machines' lives against a model: whatever is asked in whatever order, the vCenter is as the model says.

`MODEL_STEPS=1000` makes the run as long as one before a release; the suite's own is shorter.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from support.gateway import error_of
from support.machines import at, create, creation, delete, listing, shut_down, status, vms
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.provider_id import ProviderID
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine

STEPS = int(os.environ.get("MODEL_STEPS", "120"))
STEPS_OF_A_LIFE = 40
NAMES = st.sampled_from(["worker-1", "worker-2", "worker-3"])
MEMORY = st.sampled_from([2048, 4096])
FAULTS = st.sampled_from(
    [
        ("CloneVM_Task", "task", "NoDiskSpace"),
        ("CloneVM_Task", "call", "NoPermission"),
        ("ReconfigVM_Task", "task", "HostNotConnected"),
        ("ReconfigVM_Task", "task", "TaskInProgress"),
        ("PowerOnVM_Task", "task", "InsufficientResourcesFault"),
        ("PowerOffVM_Task", "task", "HostCommunication"),
        ("Destroy_Task", "task", "ResourceInUse"),
        ("Destroy_Task", "call", "SystemError"),
        ("SetField", "call", "InvalidArgument"),
        ("FindAllByUuid", "call", "NotAuthenticated"),
        ("RetrievePropertiesEx", "call", "SystemError"),
    ]
)


@dataclass
class Standing:
    """A machine as it should be."""

    provider_id: ProviderID
    memory: int
    on: bool = True


class Lives(RuleBasedStateMachine):
    """Creates, shut-downs, deletes, lists and statuses, some of which fail or are cut short."""

    vcenter: SimulatedVCenter

    @initialize()
    def begin(self) -> None:
        self._open = ExitStack()
        self.ctx = self._open.enter_context(at(self.vcenter))
        self.model: dict[str, Standing] = {}
        self.gone: list[tuple[str, ProviderID]] = []

    def teardown(self) -> None:
        if hasattr(self, "ctx"):
            self.vcenter.control.clear_faults()
            for name in ("worker-1", "worker-2", "worker-3"):
                delete(self.ctx, name)
            self._open.close()

    @rule(name=NAMES, memory=MEMORY)
    def create(self, name: str, memory: int) -> None:
        standing = self.model.get(name)
        if standing and standing.memory != memory:
            assert error_of(create, self.ctx, name, memory=memory).code is Code.ALREADY_EXISTS
            return
        made = create(self.ctx, name, memory=memory)
        if standing:
            assert made.provider_id == standing.provider_id
        self.model[name] = Standing(made.provider_id, memory)

    @rule(name=NAMES, memory=MEMORY, steps=st.integers(1, 8), remembers=st.booleans())
    def create_in_two_tries(self, name: str, memory: int, steps: int, remembers: bool) -> None:
        if name in self.model:
            return
        began, state = create_machine(creation(name, memory=memory), self.ctx), None
        for _ in range(steps):
            state = next(began).state
        began.close()
        made = create(self.ctx, name, state=state if remembers else None, memory=memory)
        self.model[name] = Standing(made.provider_id, memory)

    @rule(name=NAMES, memory=MEMORY, fault=FAULTS, what=st.sampled_from(["create", "delete", "shut_down"]))
    def fail_and_try_again(self, name: str, memory: int, fault: tuple[str, Any, str], what: str) -> None:
        """A try with a fault in it ends well or in a code; the next one without it ends as if nothing had been."""
        method, scope, kind = fault
        self.vcenter.control.add_fault(method, kind, scope=scope, count=1)
        tries: dict[str, Any] = {
            "create": lambda: create(self.ctx, name, memory=memory),
            "delete": lambda: delete(self.ctx, name),
            "shut_down": lambda: shut_down(self.ctx, name, mode="hard"),
        }
        assert _code(tries[what]) is not Code.INTERNAL
        self.vcenter.control.clear_faults()
        again: dict[str, Any] = {
            "create": lambda: self.create(name, memory),
            "delete": lambda: self.delete(name),
            "shut_down": lambda: self.stop(name),
        }
        again[what]()

    @rule(name=NAMES, named=st.booleans())
    def delete(self, name: str, named: bool = False) -> None:
        standing = self.model.pop(name, None)
        gone = delete(self.ctx, name, providerID=str(standing.provider_id) if named and standing else None)
        if standing:  # nothing is named when a try that failed at its very end has destroyed it
            assert gone.provider_id in {standing.provider_id, None}
            self.gone.append((name, standing.provider_id))

    @rule(index=st.integers(0, 9))
    def delete_late(self, index: int) -> None:
        """A delete of an incarnation that is gone hits no other."""
        if self.gone:
            name, provider_id = self.gone[index % len(self.gone)]
            assert delete(self.ctx, name, providerID=str(provider_id)).detached_volumes == ()

    @rule(name=NAMES, mode=st.sampled_from(["hard", "trySoft"]))
    def stop(self, name: str, mode: str = "hard") -> None:
        if name not in self.model:
            assert error_of(shut_down, self.ctx, name).code is Code.NOT_FOUND
            return
        shut_down(self.ctx, name, mode=mode)
        self.model[name].on = False

    @rule(name=NAMES)
    def look(self, name: str) -> None:
        standing = self.model.get(name)
        if standing is None:
            assert error_of(status, self.ctx, name).code is Code.NOT_FOUND
            return
        found = status(self.ctx, name)
        assert found.provider_id == standing.provider_id
        assert found.phase == ("Running" if standing.on else "Stopped")

    @invariant()
    def the_list_is_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        found = listing(self.ctx)
        expected = {str(standing.provider_id): name for name, standing in self.model.items()}
        assert (found.machine_list, found.creating) == (expected, ())
        assert len([path for path in vms(self.vcenter) if "/worker-" in path]) == len(self.model)


def _code(call: Callable[[], object]) -> Code:
    try:
        call()
    except CallError as error:
        return error.code
    return Code.OK


@pytest.fixture
def lives(vcenter: SimulatedVCenter) -> Iterator[type[Lives]]:
    Lives.vcenter = vcenter
    yield Lives
    del Lives.vcenter


@pytest.mark.timeout(1800)
def test_whatever_happens_the_vcenter_is_as_the_model_says(lives: type[Lives]) -> None:
    run_state_machine_as_test(
        lives,
        settings=settings(
            max_examples=max(STEPS // STEPS_OF_A_LIFE, 1),
            stateful_step_count=STEPS_OF_A_LIFE,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
