"""The generated manifests, and the tools of their platforms to check them with."""

import copy
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from vsphere_functions.cli.infra.__main__ import INFRA

CLUSTER = ("kubernetes", "knative")
Manifest = dict[str, Any]


def files(*folders: str) -> list[Path]:
    """The YAML files below folders of `infra/` that a cluster takes as they are."""
    found = (file for folder in folders for file in sorted((INFRA / folder).rglob("*.yaml")))
    return [
        file for file in found if "kind: Kustomization" not in file.read_text() and file.stem != "references"
    ]


@cache
def manifests(*folders: str) -> list[Manifest]:
    """All documents of these files."""
    return [one for file in files(*folders) for one in loaded(file.read_text())]


def loaded(text: str) -> list[Manifest]:
    """The documents of a YAML text, by the loader that is in C."""
    return list(yaml.load_all(text, yaml.CSafeLoader))


def of_kind(kind: str, *folders: str) -> list[Manifest]:
    """The documents of one kind."""
    return [one for one in manifests(*folders) if one["kind"] == kind]


def containers() -> Iterator[Manifest]:
    """Every container of every pod in a cluster."""
    return containers_of(manifests(*CLUSTER))


def containers_of(made: Iterable[Manifest]) -> Iterator[Manifest]:
    """Every container of the pods that manifests make."""
    for one in made:
        yield from one.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())


def misspelt(manifest: Manifest, path: str) -> Manifest:
    """A copy with one letter too many in a key, named by its way through the manifest."""
    changed = copy.deepcopy(manifest)
    *way, last = path.split(".")
    inner: Any = changed
    for part in way:
        inner = inner[int(part)] if part.isdigit() else inner[part]
    inner[last + "x"] = inner.pop(last)
    return changed


@dataclass(frozen=True)
class Checker:
    """kubeconform and kustomize, with a folder of schemas."""

    kubeconform: Path
    kustomize: Path
    schemas: Path

    def problems(self, documents: Iterable[Manifest], folder: Path) -> list[str]:
        """What kubeconform says against each document, empty for one that is valid."""
        given = list(documents)
        for number, one in enumerate(given):
            (folder / f"{number:04}.json").write_text(json.dumps(one))
        done = subprocess.run(
            [
                self.kubeconform,
                *("-strict", "-output", "json", "-verbose"),
                *("-schema-location", f"{self.schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"),
                folder,
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        said = {Path(one["filename"]).stem: one for one in json.loads(done.stdout)["resources"]}
        assert len(said) == len(given)
        return [
            "" if said[f"{number:04}"]["status"] == "statusValid" else said[f"{number:04}"]["msg"]
            for number in range(len(given))
        ]

    def build(self, folder: Path) -> list[Manifest]:
        """What kustomize makes of a folder; it refuses unknown fields of its own file by itself."""
        done = subprocess.run([self.kustomize, "build", folder], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return loaded(done.stdout)
