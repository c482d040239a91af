"""The guide for bad nights is true: what it quotes is said, and the settings that it names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from vsphere_functions.bootstrap.volumes import script
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.settings_names import fields

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "operations.md").read_text("utf-8")
QUOTED = sorted({" ".join(text.split()) for text in re.findall(r'`"([^`]+)"`', GUIDE)})
SETTINGS = sorted(set(re.findall(r"`((?:nats|limits|worker|http)\.[a-z_]+)`", GUIDE)))


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


SAID = said()


@pytest.mark.parametrize("text", QUOTED)
def test_what_is_quoted_is_said_by_the_code(text: str) -> None:
    parts = [part.strip() for part in text.split("…") if part.strip(" .;()")]
    assert parts
    for part in parts:
        assert part in SAID, part


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_is_named_exists(key: str) -> None:
    assert key in {name for name, _ in fields(Settings)}


def test_there_is_something_to_check() -> None:
    assert len(QUOTED) > 30
    assert len(SETTINGS) > 5
