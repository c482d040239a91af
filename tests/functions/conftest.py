"""A machine and volumes beside it, for the tests that bring them together."""

from collections.abc import Iterator

import pytest

from support import machines
from support.scene import Scene, scene, scenes
from vsphere_functions.local.vcenter import SimulatedVCenter


@pytest.fixture(scope="module")
def stage(shared_vcenter: SimulatedVCenter) -> Iterator[Scene]:
    """The machine worker-1."""
    with scenes(shared_vcenter) as made:
        yield made


@pytest.fixture
def on(stage: Scene) -> Iterator[Scene]:
    """A volume beside it."""
    with scene(stage) as made:
        made.vcenter.control.reset_calls()
        yield made


@pytest.fixture(scope="module")
def second(stage: Scene) -> str:
    """Another machine."""
    machines.create(stage.ctx, "worker-2")
    return "worker-2"
