"""The guide for bad nights is true: what it quotes is said, and the settings that it names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vsphere_functions.bootstrap.volumes import script
from vsphere_functions.hosts.nats_names import DAY, DEAD, REQUESTS, streams
from vsphere_functions.runtime.settings import Nats, Settings
from vsphere_functions.runtime.settings_names import fields
from vsphere_functions.runtime.store import Bucket

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "operations.md").read_text("utf-8")
QUOTED = sorted({" ".join(text.split()) for text in re.findall(r'`"([^`]+)"`', GUIDE)})
SETTINGS = sorted(set(re.findall(r"`((?:nats|limits|worker|http)\.[a-z_]+)`", GUIDE)))


@pytest.fixture(scope="module")
def said() -> str:
    """Every text in the code, f-strings in pieces, and the script that guests run."""
    texts = [
        node.value
        for folder in ("events", "functions")
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join([*texts, script()])


@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_is_said_by_the_code(said: str, text: str) -> None:
    parts = [part.strip() for part in text.split("…") if part.strip(" .;()")]
    assert parts
    for part in parts:
        assert part in said, part


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_is_named_exists(key: str) -> None:
    assert key in {name for name, _ in fields(Settings)}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("guides/operations.md", "**After {requests} days** the server drops it"),
        ("guides/producers.md", "served for {requests} days is dropped"),
        ("limits.md", "nobody serves for {requests} days is dropped"),
        ("limits.md", "gets the same answer for seven days"),
        ("guides/operators.md", "| `VSPHERE_REQUESTS` | requests until they are done | {requests} days |"),
        ("guides/operators.md", "lies in `VSPHERE_DEAD` for {dead} days"),
        (
            "guides/operators.md",
            "| `KV_vsphere_operations` | what became of each request | {operations} days |",
        ),
    ],
)
def test_how_long_things_are_kept_is_what_setup_says(file: str, says: str) -> None:
    kept = {one.name: round((one.max_age or 0) / DAY) for one in streams(["default"], Nats(), 1 << 20)}
    days = {"requests": kept[REQUESTS], "dead": kept[DEAD], "operations": kept[f"KV_{Bucket.OPERATIONS}"]}
    assert days["operations"] == 7
    assert says.format(**days) in " ".join((ROOT / "docs" / file).read_text("utf-8").split())


def test_there_is_something_to_check() -> None:
    assert len(QUOTED) > 30
    assert len(SETTINGS) > 5
