"""Only the gateway talks to vSphere, and only through its one door."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "events" / "vsphere_events", ROOT / "functions"]
GATEWAY = ROOT / "functions" / "vsphere_functions" / "vsphere"

SERIALISER = {GATEWAY / "calls.py"}
"""Where requests are written and answers read; no managed object has a stub there either."""
FORBIDDEN_NAMES = {"WaitForTask", "WaitForTasks", "SmartConnect", "SmartConnectNoSSL", "SmartStubAdapter"}
FORBIDDEN_NAMES |= {"VimSessionOrientedStub", "SessionOrientedStub", "ServiceInstance", "RetrieveContent"}
STUBS = {"SoapStubAdapter", "SoapStubAdapterBase", "StubAdapterBase", "SoapResponseDeserializer"}
LIVE = {"info", "runtime", "summary", "recentTask", "snapshot", "guest", "layoutEx"}
"""Properties of managed objects that people read by attribute, one hidden call each."""


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted(package.rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def words(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names and attributes, with their lines; text is no use of a thing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2], node.lineno


def live_reads(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Attribute chains such as `task.info.state`, which would call the server unseen."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr in LIVE
        ):
            yield f"{node.value.attr}.{node.attr}", node.lineno


def problems(path: Path, text: str) -> list[str]:
    tree = ast.parse(text)
    found = []
    if not path.is_relative_to(GATEWAY):
        foreign = ("pyVmomi", "pyVim", "lxml")
        found += [f"imports {name}" for name in imported(tree) if name.partition(".")[0] in foreign]
    found += [f"imports {name}" for name in imported(tree) if name.partition(".")[0] == "pyVim"]
    for word, line in words(tree):
        if word in FORBIDDEN_NAMES or (word in STUBS and path not in SERIALISER):
            found.append(f"uses {word} at line {line}")
    if path.is_relative_to(GATEWAY) and any(name.startswith("pyVmomi") for name in imported(tree)):
        found += [f"reads {chain} at line {line}" for chain, line in live_reads(tree)]
    return found


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: str(path.relative_to(ROOT)))
def test_vsphere_is_reached_only_through_the_door(path: Path) -> None:
    assert problems(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("machine/x.py", "from pyVmomi import vim"),
        ("machine/x.py", "import lxml.etree"),
        ("vsphere/x.py", "from pyVim.connect import SmartConnect"),
        ("vsphere/x.py", "from pyVmomi import vim\nvim.ServiceInstance('ServiceInstance', stub)"),
        ("vsphere/x.py", "from pyVmomi.SoapAdapter import SoapStubAdapter"),
        ("vsphere/x.py", "from pyVmomi import vim\ndone = task.info.state"),
        ("vsphere/x.py", "pyVim.task.WaitForTask(task)"),
    ],
)
def test_the_rule_can_fail(place: str, text: str) -> None:
    assert problems(ROOT / "functions" / "vsphere_functions" / place, text)
