"""The commands without servers: help, examples, data, settings, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import run
from vsphere_functions.cli import COMMANDS
from vsphere_functions.local.examples import EXAMPLES

SETTINGS = """
[nats]
url = "nats://127.0.0.1:1"
[vcenters.default]
url = "https://127.0.0.1:1/sdk"
user = "u"
password = "do-not-show"
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Settings that lead nowhere."""
    file = tmp_path / "settings.toml"
    file.write_text(SETTINGS)
    return {"VSPHERE_FUNCTIONS_CONFIG": str(file), "HTTP_URL": "http://127.0.0.1:1"}


@pytest.mark.parametrize("command", [command.__name__ for command in COMMANDS])
def test_every_command_says_what_it_does(command: str) -> None:
    said = run(command, "--help")
    assert said.returncode == 0
    assert f"Usage: vsphere-functions {command}" in said.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ["nats", "pydantic", "pyVmomi", "lxml", "functions_framework", "uvicorn"]
    script = (
        "import sys, vsphere_functions.cli; print([name for name in sys.argv[1:] if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    ).stdout
    assert said == "[]\n"


def test_without_a_command_the_help_is_shown_and_the_usage_is_wrong() -> None:
    said = run()
    assert said.returncode == 2
    assert "invoke" in said.stdout + said.stderr


@pytest.mark.parametrize("function", EXAMPLES)
def test_an_example_is_printed_as_json(function: str) -> None:
    assert json.loads(run("example", function).stdout) == {"data": EXAMPLES[function]}


def test_an_unknown_function_is_wrong_usage_and_the_known_ones_are_named() -> None:
    for said in (run("example", "fly"), run("invoke", "fly", "--data", "{}")):
        assert said.returncode == 2
        assert "no such function: fly" in said.stderr
        assert "create_machine" in said.stderr


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("{", "not JSON"),
        ("no/such/file", "No such file"),
        ('{"data": 7}', "a JSON object"),
        ("-", "not JSON"),
    ],
)
def test_data_that_cannot_be_read_are_wrong_usage(env: dict[str, str], data: str, reason: str) -> None:
    said = run("invoke", "get_machine_status", "--data", data, env=env, stdin="nonsense")
    assert said.returncode == 2
    assert reason in said.stderr


def test_a_file_that_is_no_text_is_wrong_usage(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\xff\xfe")
    said = run("invoke", "get_machine_status", "--data", str(tmp_path / "data"), env=env)
    assert said.returncode == 2
    assert "--data" in said.stderr


def test_a_server_that_is_not_there_is_a_failure(env: dict[str, str]) -> None:
    said = run("invoke", "get_machine_status", "--data", "{}", "--via", "http", env=env)
    assert said.returncode == 1
    assert "Unavailable: http://127.0.0.1:1" in said.stderr


def test_nats_that_is_not_there_is_a_failure(env: dict[str, str]) -> None:
    said = run("invoke", "get_machine_status", "--data", "{}", env=env)
    assert said.returncode == 1
    assert "NATS does not answer" in said.stderr


def test_over_http_the_result_is_always_awaited(env: dict[str, str]) -> None:
    said = run("invoke", "get_machine_status", "--data", "{}", "--via", "http", "--no-wait", env=env)
    assert said.returncode == 2


def test_an_address_that_is_none_is_wrong_usage(env: dict[str, str]) -> None:
    env["HTTP_URL"] = "file:///etc/passwd"
    said = run("invoke", "get_machine_status", "--data", "{}", "--via", "http", env=env)
    assert said.returncode == 2
    assert "HTTP_URL" in said.stderr


@pytest.mark.parametrize("command", ["worker", "serve", "setup", "settings"])
def test_settings_that_cannot_be_used_are_wrong_usage_without_their_values(
    env: dict[str, str], command: str
) -> None:
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).write_text(SETTINGS.replace("password =", "pasword ="))
    said = run(command, env=env)
    assert said.returncode == 2
    assert "vcenters.default.pasword: unknown key" in said.stderr
    assert "do-not-show" not in said.stderr


@pytest.mark.parametrize("command", ["worker", "setup"])
def test_without_nats_there_is_nothing_to_work_with(env: dict[str, str], command: str) -> None:
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).write_text(
        SETTINGS.partition("[vcenters")[2].join(["[vcenters", ""])
    )
    said = run(command, env=env)
    assert said.returncode in {1, 2}
    assert "nats: is required" in said.stderr
    assert "Traceback" not in said.stderr


def test_setup_says_when_nats_does_not_answer(env: dict[str, str]) -> None:
    said = run("setup", env=env)
    assert said.returncode == 1
    assert "NATS at nats://127.0.0.1:1" in said.stderr


def test_settings_are_printed_with_secrets_masked(env: dict[str, str]) -> None:
    said = run("settings", env=env)
    assert said.returncode == 0
    assert json.loads(said.stdout)["vcenters"]["default"]["password"] == "*" * 10


def test_serve_says_when_its_address_cannot_be_had(env: dict[str, str]) -> None:
    said = run("serve", "--host", "192.0.2.1", "--port", "0", env=env)
    assert said.returncode == 1
    assert "192.0.2.1" in said.stderr
