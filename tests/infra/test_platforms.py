"""What goes to OpenFaaS, docker compose and systemd is what they take, and the settings are what the code takes."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from support.http_host import free_port, until
from support.image import stages
from support.manifests import Checker, misspelt, of_kind
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Channel, Subject
from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.__main__ import INFRA
from vsphere_functions.local.children import end, start
from vsphere_functions.local.nats_server import nats_server_binary
from vsphere_functions.runtime.settings import Http, Limits, Worker
from vsphere_functions.runtime.settings_load import load

if TYPE_CHECKING:
    from pathlib import Path

STACK = yaml.safe_load((INFRA / "openfaas" / "stack.yaml").read_text())
COMPOSE = yaml.safe_load((INFRA / "compose" / "compose.yaml").read_text())
UNITS = sorted((INFRA / "systemd").glob("*.service"))


class _Known(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Resources(_Known):
    memory: str = ""
    cpu: str = ""


class _Function(_Known):
    """The fields that faas-cli reads; it passes over others without a word."""

    image: str
    skip_build: Literal[True]
    readonly_root_filesystem: Literal[True]
    environment: dict[str, str]
    secrets: list[str]
    annotations: dict[Literal["topic"], str]
    labels: dict[Literal["com.openfaas.scale.min", "com.openfaas.scale.max"], str]
    requests: _Resources
    limits: _Resources


class _Provider(_Known):
    name: Literal["openfaas"]
    gateway: str


class _Stack(_Known):
    version: Literal["1.0"]
    provider: _Provider
    functions: dict[str, _Function] = Field(min_length=1)


WATCHDOG = {
    *("mode", "fprocess", "upstream_url", "port", "ready_path", "prefix_logs", "max_inflight"),
    *("read_timeout", "write_timeout", "exec_timeout", "healthcheck_interval"),
}
"""Variables of of-watchdog, by its documentation; a wrong one is passed over."""


def test_the_stack_has_only_fields_that_are_read() -> None:
    stack = _Stack.model_validate(STACK)
    assert [one.environment["FUNCTION_TARGET"] for one in stack.functions.values()] == list(FUNCTIONS)
    for name, function in stack.functions.items():
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
        lower = {one for one in function.environment if one.islower()}
        assert lower <= WATCHDOG
        subject = Subject.parse(function.annotations["topic"])
        assert subject.function == function.environment["FUNCTION_TARGET"]
        assert subject.channel is Channel.CALL, "a subject of a stream would have the workers do it as well"


@pytest.mark.parametrize("path", ["provider", "version", "annotations.topic", "readonly_root_filesystem"])
def test_a_misspelt_stack_is_refused(path: str) -> None:
    place = path if path in STACK else f"functions.list-machines.{path}"
    with pytest.raises(ValidationError):
        _Stack.model_validate(misspelt(STACK, place))


def test_the_watchdog_starts_the_entry_and_waits_longer_than_a_call() -> None:
    final = stages(INFRA / "openfaas" / "Dockerfile")[-1]
    base = stages(INFRA / "container" / "Dockerfile")[-1]
    given = final.pairs("ENV")
    assert given.keys() - {"PORT", "TMPDIR"} <= WATCHDOG
    assert given["TMPDIR"] == "/tmp", "where its lock file is looked for"
    assert given["mode"] == "http"
    assert given["upstream_url"] == f"http://127.0.0.1:{given['PORT']}"
    assert given["PORT"] != "8080", "the watchdog's own"
    assert given["fprocess"] == f"{facts.HOME}/bin/{base.words('ENTRYPOINT')[0]}"
    for function in STACK["functions"].values():
        seconds = {
            name: int(value.removesuffix("s"))
            for name, value in function["environment"].items()
            if name.endswith(("timeout", "interval"))
        }
        assert Limits().budget_seconds < Http().answer_seconds < seconds["exec_timeout"]
        assert seconds["exec_timeout"] < seconds["write_timeout"]
        assert seconds["healthcheck_interval"] < 10, "so long it takes new calls after SIGTERM"


def compose_problems(checker: Checker, project: dict[str, Any]) -> list[str]:
    schema = json.loads((checker.schemas / "compose.json").read_text())
    return [error.message for error in Draft202012Validator(schema).iter_errors(project)]


def test_the_compose_file_is_valid(checker: Checker) -> None:
    assert compose_problems(checker, COMPOSE) == []


@pytest.mark.parametrize(
    "path",
    [
        "services",
        "services.worker.command",
        "services.worker.deploy.replicas",
        "services.worker.depends_on.setup.condition",
        "services.nats.healthcheck.retries",
        "services.router.read_only",
        "services.setup.secrets.0.target",
        "networks.nats.internal",
        "configs.settings.file",
    ],
)
def test_a_misspelt_compose_file_is_refused(checker: Checker, path: str) -> None:
    assert compose_problems(checker, misspelt(COMPOSE, path))


def test_compose_runs_the_nats_that_is_tested_and_names_what_it_has() -> None:
    said = subprocess.run([nats_server_binary(), "--version"], capture_output=True, text=True, check=True)
    version = said.stdout.split()[-1].removeprefix("v")
    assert COMPOSE["services"]["nats"]["image"].startswith(f"nats:{version}-")
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        assert set(service.get("depends_on", ())) <= COMPOSE["services"].keys()
        assert {one["source"] for one in service.get("secrets", ())} <= COMPOSE["secrets"].keys()
        assert {one["source"] for one in service.get("configs", ())} <= COMPOSE["configs"].keys()


def test_the_nats_of_compose_starts_by_its_command_and_answers_its_check(tmp_path: Path) -> None:
    nats = COMPOSE["services"]["nats"]
    free = str(free_port())
    given = {"/data": str(tmp_path), str(facts.MONITOR_PORT): free}
    command = [nats_server_binary(), *(given.get(word, word) for word in nats["command"])]
    assert nats["volumes"] == ["nats:/data"]
    check = nats["healthcheck"]["test"][-1]
    assert f"127.0.0.1:{facts.MONITOR_PORT}/" in check
    process = start([*map(str, command), "--port", str(free_port())])

    def answers() -> bool:
        try:
            return httpx.get(check.replace(str(facts.MONITOR_PORT), free)).status_code == 200
        except httpx.TransportError:
            return False

    try:
        until(answers, 60)
    finally:
        end(process)


def environment_of(unit: str) -> dict[str, str]:
    return dict(re.findall(r"^Environment=(\w+)=(.*)$", unit, re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_one_that_systemd_takes(unit: Path, tmp_path: Path) -> None:
    assert systemd_says(unit.read_text(), unit.name, tmp_path) == ""


@pytest.mark.parametrize("key", ["ProtectSystem", "LoadCredential", "TimeoutStopSec", "After", "WantedBy"])
def test_a_misspelt_unit_is_refused(key: str, tmp_path: Path) -> None:
    text = UNITS[-1].read_text().replace(f"{key}=", f"{key}x=", 1)
    assert f"{key}x" in systemd_says(text, UNITS[-1].name, tmp_path)


def test_a_unit_is_hardened(tmp_path: Path) -> None:
    for unit in UNITS:
        (tmp_path / unit.name).write_text(unit.read_text())
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", unit.name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def systemd_says(text: str, name: str, folder: Path) -> str:
    """What systemd says of a unit whose programs are installed."""
    for unit in UNITS:
        (folder / unit.name).write_text(
            unit.read_text().replace(facts.HOME + "/bin/vsphere-functions", "/bin/true")
        )
    (folder / name).write_text(text.replace(facts.HOME + "/bin/vsphere-functions", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", f"./{name}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr  # its status tells of a typo only in some sections


def test_units_run_commands_that_are_there_and_give_them_time_to_leave() -> None:
    for unit in UNITS:
        text = unit.read_text()
        (command,) = re.findall(rf"^ExecStart={facts.HOME}/bin/vsphere-functions (\w+)$", text, re.MULTILINE)
        assert command in {"setup", "worker", "serve"}
        (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)s$", text, re.MULTILINE)
        assert int(seconds) > Worker().drain_seconds


SETTINGS = {
    "kubernetes/settings": {},
    "compose": {},
    "systemd": environment_of(UNITS[-1].read_text()),
    "openfaas": STACK["functions"]["create-machine"]["environment"],
}


@pytest.mark.parametrize("folder", SETTINGS)
def test_the_settings_are_ones_that_the_code_takes(folder: str) -> None:
    file = INFRA / folder / "settings.toml"
    given = {key: value for key, value in SETTINGS[folder].items() if not key.endswith("_CONFIG")}
    found = load(file if folder != "openfaas" else None, given)
    assert found.nats
    assert list(found.vcenters) == ["default"]
    (vcenter,) = found.vcenters.values()
    assert vcenter.insecure is False
    assert not re.search("password =", file.read_text() if folder != "openfaas" else "")


def test_what_pods_and_containers_mount_is_where_the_settings_look() -> None:
    cluster = tomllib.loads((INFRA / "kubernetes" / "settings" / "settings.toml").read_text())
    (worker, _) = of_kind("Deployment", "kubernetes/base")
    spec = worker["spec"]["template"]["spec"]
    sources = next(one for one in spec["volumes"] if one["name"] == "secrets")["projected"]["sources"]
    paths = {f"{facts.SECRETS}/{item['path']}" for one in sources for item in one["secret"]["items"]}
    folder = cluster["secrets"]["default"]["directory"]
    nats = cluster["nats"]
    keys = {nats["nkey_seed_file"], nats["ca_file"]}
    assert paths == keys | {f"{folder}/username", f"{folder}/password"}
    assert spec["terminationGracePeriodSeconds"] > Worker().drain_seconds
    project = tomllib.loads((INFRA / "compose" / "settings.toml").read_text())
    targets = {one["target"] for one in COMPOSE["services"]["worker"]["secrets"]}
    folder = project["secrets"]["default"]["directory"]
    assert targets == {f"{folder}/username", f"{folder}/password"}
