"""The guide for deploying says what works: its overlay is built, its options are taken, its names are there."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from support.manifests import Checker, containers_of
from vsphere_functions.cli.infra.__main__ import INFRA, main

if TYPE_CHECKING:
    from pathlib import Path

GUIDE = (INFRA.parent / "docs" / "guides" / "deploying.md").read_text("utf-8")
BASE = "infra/kubernetes/base"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the manifests and the overlay of the guide."""
    assert main(["--into", str(tmp_path / "infra")]) == 0
    (overlay,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "kustomization.yaml").write_text(overlay)
    (tmp_path / "deploy" / "settings.toml").write_text("# mine\n")
    return tmp_path


@pytest.mark.parametrize("base", [BASE, *re.findall(r"`(infra/\w+/overlays/[\w-]+)`", GUIDE)])
def test_the_overlay_reaches_every_object(
    checkout: Path, checker: Checker, tmp_path: Path, base: str
) -> None:
    file = checkout / "deploy" / "kustomization.yaml"
    assert BASE in file.read_text()
    file.write_text(file.read_text().replace(BASE, base))
    built = checker.build(file.parent)
    (tmp_path / "built").mkdir()
    assert set(checker.problems(built, tmp_path / "built")) == {""}
    assert {one["metadata"]["namespace"] for one in built} == {"vsphere"}
    images = {one["image"] for one in containers_of(built)}
    assert images == {"registry.example/vsphere-functions:mine"}
    (settings,) = [one for one in built if "settings.toml" in one.get("data", {})]
    assert settings["data"]["settings.toml"] == "# mine\n"


def test_the_options_of_the_generator_are_taken(tmp_path: Path) -> None:
    (command,) = re.findall(r"^python -m vsphere_functions\.cli\.infra (.*)$", GUIDE, re.MULTILINE)
    given = shlex.split(command)
    given[given.index("--into") + 1] = str(tmp_path)
    assert main(given) == 0
    assert "default" not in (tmp_path / "kubernetes" / "settings" / "settings.toml").read_text()


def test_the_names_of_the_guide_are_there() -> None:
    made = "".join(
        file.read_text() for file in INFRA.rglob("*") if file.suffix in {".yaml", ".service", ".toml", ".sh"}
    )
    names = set(re.findall(r"vsphere-functions-[a-z-]+[a-z]", GUIDE)) - {"vsphere-functions-openfaas"}
    assert len(names) > 6
    assert {name for name in names if name not in made} == set()
    paths = re.findall(r"infra/[\w/.-]*\w", GUIDE)
    assert [path for path in paths if not (INFRA.parent / path).exists()] == []
