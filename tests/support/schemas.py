"""The schemas that manifests are checked against, fetched once into the user's cache; run as a script it fetches them.

Kubernetes' own come in a wheel, those of Knative and KEDA lie in their Go modules as definitions of custom resources,
compose's in the module of its reference implementation. All are pinned by hash: requirements/schemas.txt and
infra/local/schemas/go.sum. What is strict about them is made here: an unknown field is an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from vsphere_functions.local import tools

if TYPE_CHECKING:
    from collections.abc import Iterator

PINS = tools.CHECKOUT / "infra" / "local" / "schemas"
WHEEL = tools.CHECKOUT / "requirements" / "schemas.txt"
KUBERNETES = "v1.37.0-local-strict"
KINDS = ["configmap-v1", "deployment-apps-v1", "job-batch-v1", "networkpolicy-networking-v1"]
KINDS += ["poddisruptionbudget-policy-v1", "service-v1"]
DEFINITIONS = {
    "knative.dev/serving": ["config/core/300-resources/service.yaml"],
    "knative.dev/eventing": [
        f"config/core/resources/{kind}.yaml" for kind in ("broker", "trigger", "channel")
    ],
    "github.com/kedacore/keda/v2": ["config/crd/bases/keda.sh_scaledobjects.yaml"],
}
COMPOSE = "github.com/compose-spec/compose-go/v2"
Schema = dict[str, Any]


def ensure() -> Path:
    """Give the folder of the schemas, filled if it is not there yet."""
    sources = [PINS / "go.mod", PINS / "go.sum", WHEEL, Path(__file__)]
    key = hashlib.sha256(b"\0".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    target = tools.cache() / f"schemas-{key}"
    with tools.locked(tools.cache() / "schemas.lock"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=tools.cache(), prefix="schemas-") as folder:
                built = Path(folder) / "built"
                built.mkdir()
                _kubernetes(Path(folder), built)
                _from_modules(Path(folder), built)
                built.rename(target)
    return target


def closed(node: Any) -> Any:
    """Refuse unknown fields wherever a schema names fields, also where the cluster would keep them unseen."""
    if isinstance(node, list):
        return [closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    given = {key: closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        given["additionalProperties"] = False
    return given


def _kubernetes(folder: Path, built: Path) -> None:
    pip = ["uv", "pip"] if importlib.util.find_spec("uv") else ["pip"]
    command = [sys.executable, "-m", *pip, "install", "--quiet", "--no-deps", "--require-hashes"]
    tools.run("fetching schemas", [*command, "--target", str(folder / "wheel"), "-r", str(WHEEL)])
    source = folder / "wheel" / "kubernetes_validate" / "kubernetes-json-schema" / KUBERNETES
    definitions = json.loads((source / "_definitions.json").read_text("utf-8"))["$defs"]
    for name in KINDS:
        text = (source / f"{name}.json").read_text("utf-8").replace("/api/_definitions.json", "")
        schema = json.loads(text)
        del schema["$id"]  # its references are its own now
        schema["$defs"] = {one: definitions[one] for one in sorted(_reached(text, definitions))}
        (built / f"{name}.json").write_text(json.dumps(schema), "utf-8")


def _reached(text: str, definitions: Schema) -> set[str]:
    """Name the definitions that a schema needs; all 862 would take kubeconform seconds for each kind."""
    found, ahead = set[str](), {text}
    while ahead:
        named = {name for one in ahead for name in re.findall(r'"#/\$defs/([\w.-]+)"', one)} - found
        found |= named
        ahead = {json.dumps(definitions[name]) for name in named}
    return found


def _from_modules(folder: Path, built: Path) -> None:
    modules = folder / "go"
    environment = {**tools.go_environment(), "GOMODCACHE": str(modules), "GOFLAGS": "-modcacherw"}
    pinned = dict(re.findall(r"^\t(\S+) (v\S+)$", (PINS / "go.mod").read_text(), re.MULTILINE))
    wanted = [f"{module}@{version}" for module, version in pinned.items()]
    tools.run(
        "fetching definitions",
        [str(tools.find_go((1, 25))), "mod", "download", *wanted],
        cwd=PINS,
        env=environment,
    )
    for module, files in DEFINITIONS.items():
        for file in files:
            text = (modules / f"{module}@{pinned[module]}" / file).read_text("utf-8")
            for name, schema in _resources(yaml.safe_load(text)):
                _tighten(modules, pinned, name, schema)
                (built / f"{name}.json").write_text(json.dumps(schema), "utf-8")
    compose = modules / f"{COMPOSE}@{pinned[COMPOSE]}" / "schema" / "compose-spec.json"
    (built / "compose.json").write_text(compose.read_text("utf-8"), "utf-8")


def _resources(definition: Any) -> Iterator[tuple[str, Schema]]:
    """Give each version of a custom resource as a JSON Schema, named as kubeconform asks for it."""
    spec = definition["spec"]
    for version in spec["versions"]:
        schema = closed(version["schema"]["openAPIV3Schema"])
        schema.setdefault("properties", {})
        text = {"type": "string"}
        texts = {"type": "object", "additionalProperties": text}
        named = {"name": text, "namespace": text, "labels": texts, "annotations": texts}
        metadata = {"type": "object", "properties": named, "additionalProperties": False}
        schema["properties"] |= {"apiVersion": text, "kind": text, "metadata": metadata}
        schema |= {"additionalProperties": False, "required": ["apiVersion", "kind", "metadata", "spec"]}
        name = f"{spec['names']['kind']}-{spec['group'].split('.')[0]}-{version['name']}".lower()
        yield name, schema


def _tighten(modules: Path, pinned: dict[str, str], name: str, schema: Schema) -> None:
    """Put in what a definition leaves to the code: all fields of a delivery, and what the scaler takes."""
    if "-eventing-" in name:
        module = f"knative.dev/eventing@{pinned['knative.dev/eventing']}"
        source = (modules / module / "pkg/apis/duck/v1/delivery_types.go").read_text("utf-8")
        body = source.partition("type DeliverySpec struct")[2].partition("\n}\n")[0]
        delivery = schema["properties"]["spec"]["properties"]["delivery"]
        known: Schema = {key: {} for key in re.findall(r'json:"(\w+),', body)}
        policy = {"backoffPolicy": {"enum": ["linear", "exponential"]}}
        delivery["properties"] = {**known, **delivery["properties"], **policy}
    if name.startswith("scaledobject-"):
        module = f"github.com/kedacore/keda/v2@{pinned['github.com/kedacore/keda/v2']}"
        source = (modules / module / "pkg/scalers/nats_jetstream_scaler.go").read_text("utf-8")
        found = re.findall(r'keda:"name=(\w+),([^"]*)"', source)
        required = [key for key, rest in found if "optional" not in rest and "default" not in rest]
        trigger = schema["properties"]["spec"]["properties"]["triggers"]["items"]["properties"]
        trigger["type"] = {"enum": ["nats-jetstream"]}
        trigger["metadata"] = {
            "type": "object",
            "properties": {key: {"type": "string"} for key, _ in found},
            "required": required,
            "additionalProperties": False,
        }


if __name__ == "__main__":
    sys.stdout.write(f"{ensure()}\n")
