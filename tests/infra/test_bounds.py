"""What the manifests let in, keep out and bound, platform by platform."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
import yaml

from support.manifests import CLUSTER, Checker, Manifest, containers, manifests, of_kind
from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.__main__ import INFRA
from vsphere_functions.runtime.settings import Http, Limits, Worker

if TYPE_CHECKING:
    from pathlib import Path

COMPOSE = yaml.safe_load((INFRA / "compose" / "compose.yaml").read_text())
STACK = yaml.safe_load((INFRA / "openfaas" / "stack.yaml").read_text())["functions"]
UNITS = sorted((INFRA / "systemd").glob("*.service"))
NAMES, NATS, VCENTERS = 53, 4222, 443


def templates() -> list[Manifest]:
    return [one["spec"]["template"] for one in manifests(*CLUSTER) if "template" in one.get("spec", {})]


def test_no_pod_has_a_token_of_the_cluster_or_system_calls_that_it_does_without() -> None:
    for one in templates():
        assert one["spec"]["automountServiceAccountToken"] is False
        assert one["spec"]["enableServiceLinks"] is False
    assert {one["securityContext"]["seccompProfile"]["type"] for one in containers()} == {"RuntimeDefault"}


@pytest.mark.parametrize(
    ("component", "callers", "ports"),
    [
        ("setup", [], {NAMES, NATS}),
        ("worker", [{"ports": [{"protocol": "TCP", "port": "health"}]}], {NAMES, NATS, VCENTERS}),
        (
            "router",
            [{"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": "http"}]}],
            {NAMES, NATS, VCENTERS},
        ),
    ],
)
def test_a_pod_hears_its_callers_and_reaches_what_it_needs(
    component: str, callers: list[Manifest], ports: set[int]
) -> None:
    policies = of_kind("NetworkPolicy", "kubernetes")
    (spec,) = (one["spec"] for one in policies if one["metadata"]["name"].endswith(component))
    pods = [one["metadata"]["labels"] for one in templates()]
    assert [one for one in pods if spec["podSelector"]["matchLabels"].items() <= one.items()] == [
        one for one in pods if one["app.kubernetes.io/component"] == component
    ]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["ingress"] == callers
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == ports


def test_functions_are_called_inside_the_cluster_and_no_more_of_them_than_are_bounded() -> None:
    for one in of_kind("Service", "knative"):
        assert one["metadata"]["labels"]["networking.knative.dev/visibility"] == "cluster-local"
        template = one["spec"]["template"]
        scale = {key: int(value) for key, value in template["metadata"]["annotations"].items()}
        assert scale.keys() == {"autoscaling.knative.dev/min-scale", "autoscaling.knative.dev/max-scale"}
        assert 0 <= scale["autoscaling.knative.dev/min-scale"] <= scale["autoscaling.knative.dev/max-scale"]
        assert scale["autoscaling.knative.dev/max-scale"] > 0
        assert template["spec"]["containerConcurrency"] == Http().slots


def test_a_trigger_tries_for_longer_than_a_call_may_take_and_as_often_as_we_do() -> None:
    """So a request that is put off is answered, and gets its failed result, before the broker gives it up."""
    for one in of_kind("Trigger", "knative"):
        delivery = one["spec"]["delivery"]
        assert (delivery["backoffPolicy"], delivery["backoffDelay"]) == ("exponential", "PT2S")
        assert sum(2 * 2**at for at in range(delivery["retry"])) > 2 * facts.CALL_SECONDS
        assert 1 + delivery["retry"] >= Limits().attempts


def test_the_broker_on_jetstream_fetches_no_event_that_waits_for_another() -> None:
    (broker,) = of_kind("Broker", "knative/overlays/nats-jetstream")
    (said,) = [text for key, text in broker["metadata"]["annotations"].items() if key.endswith("/config")]
    assert {"name": "CONSUMER_FETCH_BATCH_SIZE", "value": "1"} in json.loads(said)["filter"]["env"]


def test_keda_alone_says_how_many_workers_there_are(checker: Checker) -> None:
    built = checker.build(INFRA / "kubernetes" / "overlays" / "keda")
    (scaled,) = (one["spec"] for one in built if one["kind"] == "ScaledObject")
    (worker,) = (
        one
        for one in built
        if one["metadata"]["name"] == scaled["scaleTargetRef"]["name"] and one["kind"] == "Deployment"
    )
    assert "replicas" not in worker["spec"], "each apply would set it back"
    assert 1 <= scaled["minReplicaCount"] < scaled["maxReplicaCount"]
    assert {one["metadata"]["lagThreshold"] for one in scaled["triggers"]} == {str(Worker().slots)}


def test_the_containers_of_compose_gain_nothing_and_are_reached_from_this_host_alone() -> None:
    for service in COMPOSE["services"].values():
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert COMPOSE["services"]["nats"]["networks"] == ["nats"], "it has no login"
    assert COMPOSE["networks"]["nats"] == {"internal": True}


def test_compose_starts_what_works_after_what_it_needs_and_gives_it_time_to_leave() -> None:
    services = COMPOSE["services"]
    assert services["setup"]["depends_on"] == {"nats": {"condition": "service_healthy"}}
    for name in ("worker", "router"):
        assert services[name]["depends_on"] == {"setup": {"condition": "service_completed_successfully"}}
        assert services[name]["restart"] == "unless-stopped"
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > Worker().drain_seconds


def values(unit: Path, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_nobody_and_gets_the_key_and_the_secrets_that_its_settings_name(unit: Path) -> None:
    user = "setup" if unit.stem.endswith("setup") else "worker"
    given = dict(one.split("=", 1) for one in values(unit, "Environment"))
    loaded = dict(one.split(":", 1) for one in values(unit, "LoadCredential"))
    assert {value for value in given.values() if value.startswith("%d/")} == {f"%d/{name}" for name in loaded}
    assert given[facts.environment("nats.nkey_seed_file")] == f"%d/{user}.nk"
    assert given[facts.environment("nats.inbox_prefix")] == facts.inbox_of(user)
    assert all(path.endswith(f"/credentials/{name}") for name, path in loaded.items())
    assert values(unit, "DynamicUser") == ["yes"]
    assert values(unit, "Restart") == ([] if user == "setup" else ["on-failure"])


def test_a_function_of_openfaas_gets_the_secrets_that_its_settings_name() -> None:
    for one in STACK.values():
        named = {value.rpartition("/")[2] for value in one["environment"].values() if "/secrets/" in value}
        assert named == set(one["secrets"])
        assert len(named) == 3
