"""The commands without servers: help, examples, data, settings, exit statuses."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.commands import BASE, command, run
from vsphere_functions.cli.commands import COMMANDS, app
from vsphere_functions.local.examples import EXAMPLES

LEAN = (
    "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"
    ":glibc.malloc.mmap_threshold=131072:glibc.malloc.trim_threshold=131072"
)
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


@pytest.mark.parametrize("command", [command.__name__.replace("_", "-") for command in COMMANDS])
def test_every_command_says_what_it_does(command: str) -> None:
    said = CliRunner().invoke(app, [command, "--help"], prog_name="vsphere-functions")
    assert said.exit_code == 0
    assert f"Usage: vsphere-functions {command}" in said.stdout


def test_help_is_shown_by_the_process_too() -> None:
    said = run("worker", "--help")
    assert said.returncode == 0
    assert "Usage: vsphere-functions worker" in said.stdout


def test_help_imports_nothing_heavy() -> None:
    heavy = ["nats", "pydantic", "pyVmomi", "lxml", "functions_framework", "uvicorn"]
    script = "import sys, vsphere_functions.cli.commands; print([name for name in sys.argv[1:] if name in sys.modules])"
    said = subprocess.run(
        [sys.executable, "-c", script, *heavy], capture_output=True, text=True, check=True
    ).stdout
    assert said == "[]\n"


@pytest.mark.parametrize(
    ("options", "own", "seen"),
    [
        ((), {}, ["nothing", LEAN]),
        ((), {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1"}, ["glibc.malloc.arena_max=1"]),
        (("-Xlean-heap",), {}, ["nothing"]),
    ],
    ids=["by itself", "with the operator's", "where the variable is lost"],
)
def test_a_worker_begins_once_more_for_a_lean_heap(
    options: tuple[str, ...], own: dict[str, str], seen: list[str]
) -> None:
    script = (
        "import os; print(os.environ.get('GLIBC_TUNABLES', 'nothing'), flush=True);"
        "from vsphere_functions.cli import app; app()"
    )
    said = subprocess.run(
        [sys.executable, *options, "-c", script, "worker"],
        env={key: value for key, value in BASE.items() if key != "GLIBC_TUNABLES"} | own,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert said.stdout.split() == seen
    assert (said.returncode, "nats" in said.stderr) == (2, True)


def test_without_a_command_the_help_is_shown_and_the_usage_is_wrong() -> None:
    said = run()
    assert said.returncode == 2
    assert "invoke" in said.stdout + said.stderr


@pytest.mark.parametrize("function", EXAMPLES)
def test_an_example_is_printed_as_json(function: str) -> None:
    assert json.loads(CliRunner().invoke(app, ["example", function]).stdout) == {"data": EXAMPLES[function]}


def test_an_example_is_printed_by_the_process_too() -> None:
    assert json.loads(run("example", "create_machine").stdout) == {"data": EXAMPLES["create_machine"]}


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"{version('vsphere-functions')}\n"


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
        ("[]", "a JSON object"),
        ("", "--data: is empty"),
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
    assert "NATS at nats://127.0.0.1:1 does not answer" in said.stderr


def test_the_id_of_a_request_is_told_before_it_is_sent(env: dict[str, str]) -> None:
    said = run("invoke", "get_machine_status", "--data", "{}", "--via", "http", "--id", "req 1", env=env)
    assert said.stderr.startswith("vsphere-functions: request req 1; waiting up to 600 s\n")
    assert said.stdout == ""


def interrupt(process: subprocess.Popen[str]) -> None:
    """Press ^C until it ends, as a person would: one that falls into a callback of the interpreter is lost."""
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            continue
        return
    raise AssertionError("it does not end")


@pytest.mark.parametrize("how", ["timeout", "signal"])
def test_a_request_that_is_not_awaited_to_its_end_may_still_be_running(env: dict[str, str], how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env["HTTP_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        limit = "0.2" if how == "timeout" else "30"
        arguments = command(
            "invoke", "get_machine_status", "--data", "{}", "--via", "http", "--id", "r", "--timeout", limit
        )
        with subprocess.Popen(
            arguments, env={**BASE, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            if how == "signal":
                assert process.stderr
                assert "request r;" in process.stderr.readline()
                interrupt(process)
            out, told = process.communicate(timeout=60)
    assert process.returncode == (1 if how == "timeout" else 130)
    assert "it may still be running, and the same command with --id r asks for its result" in told
    assert out == ""
    assert "Traceback" not in told


def test_an_interrupt_while_the_command_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    said = run("--help", env={"PYTHONPATH": str(tmp_path)})
    assert (said.returncode, said.stderr) == (130, "")


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


@pytest.mark.parametrize("command", [["worker"], ["setup"], ["invoke", "list_machines", "--data", "{}"]])
def test_without_nats_there_is_nothing_to_work_with(env: dict[str, str], command: list[str]) -> None:
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).write_text(
        SETTINGS.partition("[vcenters")[2].join(["[vcenters", ""])
    )
    said = run(*command, env=env)
    assert said.returncode == 2
    assert said.stderr.startswith("vsphere-functions: settings: nats: is required")
    assert "Traceback" not in said.stderr


def test_setup_says_when_nats_does_not_answer(env: dict[str, str]) -> None:
    said = run("setup", env=env)
    assert said.returncode == 1
    assert "NATS at nats://127.0.0.1:1" in said.stderr


def test_settings_are_printed_with_secrets_masked(env: dict[str, str]) -> None:
    said = run("settings", env=env)
    assert said.returncode == 0
    assert json.loads(said.stdout)["vcenters"]["default"]["password"] == "*" * 10


def test_each_problem_of_the_settings_has_a_line_of_its_own(env: dict[str, str]) -> None:
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).write_text("[limits]\nattempts = 0\n[nats]\nurls = 1\n")
    said = run("settings", env=env)
    lines = said.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("vsphere-functions: settings: ") for line in lines)


def test_a_variable_that_means_nothing_is_refused_with_the_one_it_may_mean(env: dict[str, str]) -> None:
    said = run("settings", env={**env, "VSPHERE_FUNCTIONS_NATS_URL": "nats://do-not-show"})
    assert said.returncode == 2
    assert "VSPHERE_FUNCTIONS_NATS_URL: there is no such setting" in said.stderr
    assert "did you mean VSPHERE_FUNCTIONS_NATS__URL?" in said.stderr
    assert "do-not-show" not in said.stderr


def test_settings_name_each_file_that_is_not_there(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).write_text(
        SETTINGS
        + 'ca_file = "no-ca"\n[secrets.a]\ndirectory = "no-secret"\n[secrets.b]\ndirectory = "empty"\n'
        '[vcenters.a]\nurl = "https://a/sdk"\nsecret = "a"\n[vcenters.b]\nurl = "https://b/sdk"\nsecret = "b"\n'
        '[vcenters.c]\nurl = "https://c/sdk"\nuser = "u"\npassword_file = "no-password"\n'
    )
    said = run("settings", env=env)
    assert said.returncode == 2
    assert json.loads(said.stdout)["nats"]
    assert [line.removeprefix("vsphere-functions: settings: ") for line in said.stderr.splitlines()] == [
        f"vcenters.default.ca_file: {tmp_path}/no-ca: No such file or directory",
        f"vcenters.c.password_file: {tmp_path}/no-password: No such file or directory",
        f"secrets.a.directory: {tmp_path}/no-secret: No such file or directory",
        "vcenters.b: the secret of vCenter b has no user or no password",
    ]


@pytest.mark.parametrize("way", [["settings"], ["invoke", "list_machines", "--data", "{}", "--via", "http"]])
def test_settings_that_are_gone_ask_whether_up_is(env: dict[str, str], way: list[str]) -> None:
    Path(env["VSPHERE_FUNCTIONS_CONFIG"]).unlink()
    said = run(*way, env=env)
    assert said.returncode == (2 if way == ["settings"] else 1)
    assert "if it comes from `up`, is that still running?" in said.stderr


@pytest.mark.parametrize(("command", "setting"), [("worker", "WORKER__HEALTH_PORT"), ("serve", "HTTP__PORT")])
def test_a_port_that_is_taken_is_one_line_that_names_the_setting(
    env: dict[str, str], command: str, setting: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = run(
            command,
            env={
                **env,
                "VSPHERE_FUNCTIONS_WORKER__HEALTH_HOST": "127.0.0.1",
                f"VSPHERE_FUNCTIONS_{setting}": port,
            },
        )
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    key = setting.lower().replace("__", ".")
    assert f"{key}: 127.0.0.1:{port}: Address already in use; each process needs a port of its own" in line


def test_serve_says_when_its_address_cannot_be_had(env: dict[str, str]) -> None:
    said = run("serve", "--host", "192.0.2.1", "--port", "0", env=env)
    assert said.returncode == 1
    assert "192.0.2.1" in said.stderr
