"""What goes to a cluster is made from the code's tables and is valid by the platforms' own schemas."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.manifests import CLUSTER, Checker, Manifest, containers, files, manifests, misspelt, of_kind
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Kind, event_type
from vsphere_functions.cli.infra.__main__ import INFRA, main
from vsphere_functions.hosts.nats_names import REQUESTS
from vsphere_functions.hosts.nats_permissions import ACCOUNT
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.runtime.settings import Http, Limits, Nats, Settings, VCenter

if TYPE_CHECKING:
    from pathlib import Path

BUILT = ["kubernetes/base", "kubernetes/overlays/keda"]
BUILT += ["knative/overlays/in-memory", "knative/overlays/nats-jetstream"]
TYPOS = {
    "ConfigMap": ["data"],
    "Deployment": [
        "spec.replicas",
        "spec.template.spec.containers.0.readinessProbe",
        "spec.template.spec.containers.0.livenessProbe.httpGet.path",
        "spec.template.spec.containers.0.securityContext.readOnlyRootFilesystem",
        "spec.template.spec.volumes.1.projected.sources",
        "metadata.labels",
    ],
    "Job": ["spec.ttlSecondsAfterFinished", "spec.template.spec.restartPolicy"],
    "NetworkPolicy": ["spec.podSelector", "spec.egress.0.ports.0.protocol"],
    "PodDisruptionBudget": ["spec.maxUnavailable"],
    "Service": ["spec"],
    "Broker": ["metadata.annotations", "spec.config", "spec"],
    "Channel": ["spec.channelTemplate", "spec.channelTemplate.kind"],
    "Trigger": [
        "spec.broker",
        "spec.filter",
        "spec.subscriber.ref",
        "spec.delivery.retry",
        "spec.delivery.backoffPolicy",
        "spec.delivery.deadLetterSink.ref.kind",
    ],
    "ScaledObject": [
        "spec.maxReplicaCount",
        "spec.scaleTargetRef.name",
        "spec.triggers.0.metadata.lagThreshold",
        "spec.triggers.0.metadata.consumer",
    ],
}
KNATIVE_SERVICE = [
    "spec.template.spec.containerConcurrency",
    "spec.template.spec.responseStartTimeoutSeconds",
    "spec.template.spec.containers.0.env.0.value",
    "spec.template.spec.containers.0.securityContext.capabilities",
]


def test_the_generated_files_are_fresh() -> None:
    assert main(["--check"]) == 0


def test_other_vcenters_bring_their_own_consumers_secrets_and_settings(
    tmp_path: Path, checker: Checker
) -> None:
    place = ["--vcenters", "east,west", "--nats", "nats.far", "--account", "OTHER"]
    assert main(["--into", str(tmp_path), *place]) == 0
    built = checker.build(tmp_path / "kubernetes" / "overlays" / "keda")
    kinds = {one["kind"]: one for one in built if "router" not in one["metadata"]["name"]}
    triggers = kinds["ScaledObject"]["spec"]["triggers"]
    assert [one["metadata"]["consumer"] for one in triggers] == [
        f"{label}-{function}" for label in ("east", "west") for function in FUNCTIONS
    ]
    assert {one["metadata"]["account"] for one in triggers} == {"OTHER"}
    assert {one["metadata"]["natsServerMonitoringEndpoint"] for one in triggers} == {"nats.far:8222"}
    assert 'url = "tls://nats.far:4222"' in kinds["ConfigMap"]["data"]["settings.toml"]
    volumes = kinds["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert "vsphere-functions-vcenter-west" in json.dumps(volumes)
    assert "[vcenters.west]" in kinds["ConfigMap"]["data"]["settings.toml"]
    with pytest.raises(SystemExit):
        main(["--into", str(tmp_path), "--vcenters", "East"])


def test_every_manifest_is_valid(checker: Checker, tmp_path: Path) -> None:
    assert set(checker.problems(manifests(*CLUSTER), tmp_path)) == {""}


@pytest.mark.parametrize("folder", BUILT)
def test_what_kustomize_builds_is_valid(checker: Checker, tmp_path: Path, folder: str) -> None:
    built = checker.build(INFRA / folder)
    assert set(checker.problems(built, tmp_path)) == {""}
    settings = [one["metadata"]["name"] for one in built if "settings.toml" in one.get("data", {})]
    assert len(settings) == 1, "the hash in its name makes pods start anew when it changes"
    mounted = set(re.findall(r'"configMap": {"name": "([^"]+)"', json.dumps(built)))
    assert mounted == set(settings)


def test_every_kind_is_refused_with_a_letter_too_many(checker: Checker, tmp_path: Path) -> None:
    made = manifests(*CLUSTER)
    assert {one["kind"] for one in made} == TYPOS.keys()
    wrong = {
        f"{kind} {path}": misspelt(_having(path, kind), path)
        for kind, paths in TYPOS.items()
        for path in paths
    }
    serving = of_kind("Service", "knative")[0]
    wrong |= {f"Knative {path}": misspelt(serving, path) for path in KNATIVE_SERVICE}
    said = dict(zip(wrong, checker.problems(wrong.values(), tmp_path), strict=True))
    assert [name for name, problem in said.items() if not problem] == []


def _having(path: str, kind: str) -> Manifest:
    """The first manifest of a kind that has the field."""
    for one in of_kind(kind, *CLUSTER):
        try:
            misspelt(one, path)
        except KeyError:
            continue
        return one
    raise AssertionError(f"no {kind} has {path}")


def test_a_broken_overlay_is_refused(checker: Checker, tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\nresource: [nothing.yaml]\n")
    with pytest.raises(AssertionError, match="resource"):
        checker.build(tmp_path)


def test_every_function_has_a_service_and_a_trigger_and_no_result_comes_back_to_one() -> None:
    services = of_kind("Service", "knative/base")
    targets = [_target(one) for one in services]
    assert targets == list(FUNCTIONS)
    names = dict(zip((one["metadata"]["name"] for one in services), targets, strict=True))
    for overlay in ("in-memory", "nats-jetstream"):
        heard: dict[str, list[str]] = {}
        for trigger in of_kind("Trigger", f"knative/overlays/{overlay}"):
            assert trigger["spec"]["filter"].keys() == {"attributes"}
            assert trigger["spec"]["filter"]["attributes"].keys() == {"type"}
            heard.setdefault(trigger["spec"]["filter"]["attributes"]["type"], []).append(
                names[trigger["spec"]["subscriber"]["ref"]["name"]]
            )
        assert heard == {event_type(function, Kind.REQUEST): [function] for function in FUNCTIONS}


def _target(service: Manifest) -> str:
    (function,) = service["spec"]["template"]["spec"]["containers"]
    return str(next(one["value"] for one in function["env"] if one["name"] == "FUNCTION_TARGET"))


def test_a_call_may_take_as_long_as_its_work_and_a_broker_waits_longer() -> None:
    for service in of_kind("Service", "knative"):
        spec = service["spec"]["template"]["spec"]
        assert Limits().budget_seconds < Http().answer_seconds < spec["timeoutSeconds"]
        assert spec["timeoutSeconds"] <= 600, "Knative's default maximum"
        assert spec["responseStartTimeoutSeconds"] == spec["timeoutSeconds"], "the answer comes as a whole"
        for trigger in of_kind("Trigger", "knative"):
            patience = trigger["spec"]["delivery"]["timeout"].removeprefix("PT").removesuffix("S")
            assert int(patience) > spec["timeoutSeconds"]


def test_each_trigger_and_broker_leads_to_what_is_there() -> None:
    for overlay in ("in-memory", "nats-jetstream"):
        made = manifests(f"knative/overlays/{overlay}")
        there = {(one["kind"], one["metadata"]["name"]) for one in made}
        for trigger in (one for one in made if one["kind"] == "Trigger"):
            assert ("Broker", trigger["spec"]["broker"]) in there
            sink = trigger["spec"]["delivery"]["deadLetterSink"]["ref"]
            assert (sink["kind"], sink["name"]) in there
        broker = next(one for one in made if one["kind"] == "Broker")
        if "config" in broker["spec"]:
            assert ("ConfigMap", broker["spec"]["config"]["name"]) in there


def test_no_container_may_write_or_gain_anything() -> None:
    found = list(containers())
    assert len(found) == len(FUNCTIONS) + 3
    for one in found:
        allowed = one["securityContext"]
        assert allowed["readOnlyRootFilesystem"] is True
        assert allowed["runAsNonRoot"] is True
        assert allowed["allowPrivilegeEscalation"] is False
        assert allowed["capabilities"] == {"drop": ["ALL"]}


def test_the_scaler_finds_each_consumer_where_it_looks(nats_server_binary: Path) -> None:
    """It reads /jsz of the monitoring port, by account, stream and consumer."""
    assert nats_server_binary.is_file()
    account = f"accounts {{ {ACCOUNT} {{ jetstream: enabled, users: [{{user: u, password: p}}] }} }}\n"
    with NatsServer(config=account) as server:
        given = Nats.model_validate({"url": server.url, "user": "u", "password": "p"})
        there = _consumers(server, given)
    (scaled,) = of_kind("ScaledObject", "kubernetes")
    asked = [one["metadata"] for one in scaled["spec"]["triggers"]]
    assert {(one["account"], one["stream"], one["consumer"]) for one in asked} == there
    assert len(asked) == len(there)


def _consumers(server: NatsServer, given: Nats) -> set[tuple[str, str, str]]:
    """What `setup` makes, as the monitoring port tells it."""
    vcenter = VCenter.model_validate({"url": "https://127.0.0.1:1/sdk", "user": "u", "password": "p"})
    setup(Settings(nats=given, vcenters={"default": vcenter}))
    where = f"{server.monitor_url}/jsz?acc={ACCOUNT}&consumers=true&config=true"
    with urllib.request.urlopen(where) as answer:
        accounts = json.load(answer)["account_details"]
    return {
        (account["name"], stream["name"], consumer["name"])
        for account in accounts
        for stream in account["stream_detail"]
        for consumer in stream.get("consumer_detail") or ()
        if stream["name"] == REQUESTS
    }


def test_each_file_says_that_it_is_generated() -> None:
    assert [file for file in files(*CLUSTER) if "make infra" not in file.read_text().splitlines()[0]] == []
