"""The guide for deploying says what works: its overlay is built, its options are taken, its names are there."""

from __future__ import annotations

import json
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
(OPTIONS,) = re.findall(r"^python -m vsphere_functions\.cli\.infra (.*)$", GUIDE, re.MULTILINE)
(OVERLAY,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the manifests and the overlay of the guide."""
    assert main(["--into", str(tmp_path / "infra")]) == 0
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "kustomization.yaml").write_text(OVERLAY)
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


def rendered(folder: Path) -> Path:
    """Do what the guide says for several vCenters."""
    given = shlex.split(OPTIONS)
    place = given.index("--into") + 1
    folder /= given[place]
    assert main([*given[:place], str(folder), *given[place + 1 :]]) == 0
    return folder


def test_the_overlay_of_several_vcenters_is_beside_what_is_rendered_and_stays(
    checker: Checker, tmp_path: Path
) -> None:
    folder = rendered(tmp_path)
    for name in ("`kubernetes/base`", f"`../{BASE}`", "`deploy/kubernetes/settings/settings.toml`"):
        assert name in GUIDE
    settings = (folder / "kubernetes" / "settings" / "settings.toml").read_text()
    mine = {"settings.toml": settings, "kustomization.yaml": OVERLAY.replace(f"../{BASE}", "kubernetes/base")}
    for name, text in mine.items():
        (folder / name).write_text(text)
    rendered(tmp_path)
    assert {name: (folder / name).read_text() for name in mine} == mine
    built = json.dumps(checker.build(folder))
    assert "vsphere-functions-vcenter-west" in built
    assert "vsphere-functions-vcenter-default" not in built


def test_the_guide_names_the_kustomize_that_is_tested() -> None:
    pins = (INFRA / "local" / "kustomize" / "go.mod").read_text()
    (version,) = re.findall(r"sigs\.k8s\.io/kustomize/kustomize/v5 (v\S+)", pins)
    assert f"kustomize {version}." in GUIDE


def test_the_names_of_the_guide_are_there() -> None:
    made = "".join(
        file.read_text() for file in INFRA.rglob("*") if file.suffix in {".yaml", ".service", ".toml", ".sh"}
    )
    names = set(re.findall(r"vsphere-functions-[a-z-]+[a-z]", GUIDE)) - {"vsphere-functions-openfaas"}
    assert len(names) > 6
    assert {name for name in names if name not in made} == set()
    paths = re.findall(r"infra/[\w/.-]*\w", GUIDE)
    assert [path for path in paths if not (INFRA.parent / path).exists()] == []
