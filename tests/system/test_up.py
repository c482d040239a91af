"""`vsphere-functions up`: the whole stack in the foreground, and gone with it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import BASE, alive, children_of, command, environment, run, up
from vsphere_functions.local.examples import example
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.stack import Stack, StackError
from vsphere_functions.local.tools import ensure
from vsphere_functions.local.up import published

if TYPE_CHECKING:
    from collections.abc import Iterator

Running = tuple["subprocess.Popen[str]", dict[str, str]]


@pytest.fixture(scope="module")
def running(vcsim_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One stack for the tests that only use it."""
    assert vcsim_binary.is_file()
    with up(tmp_path_factory.mktemp("up"), "--vms", "2") as found:
        yield found


def govc(env: dict[str, str], *arguments: str) -> str:
    (binary,) = ensure("govc")
    return subprocess.run(
        [binary, *arguments], env={**os.environ, **env}, capture_output=True, text=True, check=True
    ).stdout


def invoke(env: dict[str, str], function: str, *options: str) -> subprocess.CompletedProcess[str]:
    return run("invoke", function, "--data", json.dumps({"data": example(function)}), *options, env=env)


def test_the_file_has_what_a_shell_needs(running: Running) -> None:
    _, env = running
    assert {"NATS_URL", "GOVC_URL", "VSPHERE_FUNCTIONS_CONFIG", "HTTP_URL"} <= env.keys()
    assert Path(env["VSPHERE_FUNCTIONS_CONFIG"]).is_file()
    for url in (env["HTTP_URL"], env["HEALTH_URL"]):
        with urllib.request.urlopen(f"{url}/readyz", timeout=5) as response:
            assert response.status == 200
    assert "fleet-00002" in govc(env, "ls", "/DC0/vm/fleet")


@pytest.mark.parametrize("via", ["nats", "http"])
def test_the_examples_work_on_both_ways_in(running: Running, via: str) -> None:
    _, env = running
    made = invoke(env, "create_machine", "--via", via)
    assert made.returncode == 0, made.stderr
    result = json.loads(made.stdout)
    assert result["type"] == "io.vspherefunctions.create_machine.succeeded.v1"
    assert "Name:           worker-1" in govc(env, "vm.info", "worker-1")
    status = json.loads(invoke(env, "get_machine_status", "--via", via).stdout)
    assert status["data"]["providerID"] == result["data"]["providerID"]
    assert status["data"]["phase"] == "Running"
    assert json.loads(invoke(env, "get_volume_ids", "--via", via).stdout)["data"]["volumeIDs"]
    assert invoke(env, "delete_machine", "--via", via).returncode == 0
    gone = invoke(env, "get_machine_status", "--via", via)
    assert gone.returncode == 1
    assert json.loads(gone.stdout)["data"]["error"]["code"] == "NotFound"
    assert govc(env, "vm.info", "worker-1") == ""


def test_a_request_that_nobody_waits_for_is_done_all_the_same(running: Running) -> None:
    _, env = running
    sent = invoke(env, "create_machine", "--no-wait", "--id", "unwaited")
    assert sent.returncode == 0
    assert json.loads(sent.stdout)["id"] == "unwaited"
    assert "data" not in json.loads(sent.stdout), "it may hold secrets"
    # Under the same id the same request is meant: this waits for it.
    assert json.loads(invoke(env, "create_machine", "--id", "unwaited").stdout)["id"] == "unwaited.result"
    assert invoke(env, "delete_machine").returncode == 0


def test_e25_the_command_says_that_a_vcenter_is_unknown(running: Running) -> None:
    failed = invoke(running[1], "get_machine_status", "--vcenter", "blue")
    assert failed.returncode == 1
    assert "no stream takes vsphere.request.blue.get_machine_status" in failed.stderr
    refused = invoke(running[1], "get_machine_status", "--vcenter", "blue", "--via", "http")
    assert refused.returncode == 1
    assert "no vCenter" in refused.stderr


def test_the_settings_of_the_stack_are_printed_without_the_password(running: Running) -> None:
    _, env = running
    said = run("settings", env=env)
    assert said.returncode == 0
    assert json.loads(said.stdout)["vcenters"]["default"]["secret"] == "simulator"
    assert env["GOVC_PASSWORD"] not in said.stdout


def test_setup_may_be_repeated_and_names_what_there_is(running: Running) -> None:
    said = run("setup", env=running[1])
    assert said.returncode == 0
    assert {"VSPHERE_REQUESTS", "VSPHERE_RESULTS", "default-create_machine"} <= set(said.stdout.split())


def test_on_a_terminal_the_progress_is_told_beside_the_result(running: Running) -> None:
    _, env = running
    primary, secondary = pty.openpty()
    made = subprocess.run(
        command("invoke", "create_machine", "--data", json.dumps({"data": example("create_machine")})),
        env={**BASE, **env},
        stdout=subprocess.PIPE,
        stderr=secondary,
        check=True,
        timeout=100,
    )
    os.close(secondary)
    assert b"clone: 0 % cloning templates/ubuntu-24.04" in os.read(primary, 65536)
    os.close(primary)
    assert json.loads(made.stdout)["subject"] == "worker-1"
    assert invoke(env, "delete_machine").returncode == 0


def test_a_signal_while_it_starts_stops_what_has_begun(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    arguments = command("up", "--env-file", str(tmp_path / "env"))
    with subprocess.Popen(arguments, env=BASE, stdout=subprocess.DEVNULL, text=True) as process:
        while "nats-server" not in map(name_of, below := children_of(process.pid)):
            assert process.poll() is None
        process.terminate()
        assert process.wait(100) == 0
    assert not any(map(alive, below))
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_of_it(vcsim_binary: Path, tmp_path: Path, how: signal.Signals) -> None:
    assert vcsim_binary.is_file()
    with up(tmp_path) as (process, env):
        below = children_of(process.pid)
        process.send_signal(how)
        assert process.wait(100) == 0
        assert not any(map(alive, below))
        assert len(below) >= 4
        assert not (tmp_path / "env").exists()
        assert not Path(env["VSPHERE_FUNCTIONS_CONFIG"]).exists()


def test_a_kill_leaves_no_child_behind(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    with up(tmp_path) as (process, _):
        below = children_of(process.pid)
        process.kill()
        process.wait()
    deadline = time.monotonic() + 60
    while any(map(alive, below)):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in below if alive(pid)]}"


def test_a_server_that_ends_by_itself_ends_the_stack(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    with up(tmp_path) as (process, _):
        (server,) = [pid for pid in children_of(process.pid) if name_of(pid) == "nats-server"]
        os.kill(server, signal.SIGKILL)
        assert process.wait(100) == 1
    assert "the NATS server has ended" in (tmp_path / "up.log").read_text()


def test_a_worker_that_ends_by_itself_leaves_its_last_lines(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    with up(tmp_path) as (process, _):
        (worker,) = [pid for pid in children_of(process.pid) if "worker" in words_of(pid)]
        os.kill(worker, signal.SIGTERM)
        assert process.wait(100) == 1
    _, last = (tmp_path / "up.log").read_text().split("the worker has ended")
    assert [json.loads(line)["event"] for line in last.splitlines() if line][-1] == "worker ends"


def test_the_ports_are_those_that_were_asked_for(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    with NatsServer() as server:
        port = server.port
    with up(tmp_path, "--nats-port", str(port)) as (_, env):
        assert env["NATS_URL"] == f"nats://127.0.0.1:{port}"


def test_a_port_that_is_taken_is_said(vcsim_binary: Path) -> None:
    assert vcsim_binary.is_file()
    with NatsServer() as server:
        said = run("up", "--nats-port", str(server.port))
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    assert f"--nats-port {server.port}: Address already in use" in line


@pytest.mark.parametrize("option", ["--nats-port", "--vcenter-port"])
def test_a_port_that_is_none_is_wrong_usage(option: str) -> None:
    said = run("up", option, "70000")
    assert said.returncode == 2
    assert option in said.stderr


def test_the_file_of_a_running_up_is_refused_and_stays(running: Running) -> None:
    process, env = running
    (file,) = [Path(word) for word in words_of(process.pid) if word.endswith("/env")]
    before = file.read_text()
    said = run("up", "--env-file", str(file))
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    assert "it belongs to another `up` that is running" in line
    assert file.read_text() == before
    assert environment(file)["NATS_URL"] == env["NATS_URL"]


def test_the_file_of_an_up_that_was_killed_is_in_nobodys_way(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("NATS_URL=x\nVSPHERE_FUNCTIONS_CONFIG=/nowhere\n")
    with published({"NATS_URL": "nats://new"}, file):
        assert file.read_text() == "NATS_URL=nats://new\n"
        with pytest.raises(StackError, match="another `up`"), published({}, file):
            pass
        assert file.read_text() == "NATS_URL=nats://new\n"
    assert list(tmp_path.iterdir()) == []


def test_an_end_does_not_take_the_file_that_has_come_instead(tmp_path: Path) -> None:
    file = tmp_path / "env"
    with published({"NATS_URL": "nats://old"}, file):
        file.unlink()
        file.write_text("another's")
    assert file.read_text() == "another's"


@pytest.mark.parametrize("what", ["other", "folder", "below a file"])
def test_a_file_that_cannot_be_ours_is_refused_and_left_alone(tmp_path: Path, what: str) -> None:
    file = tmp_path / "env"
    if what == "folder":
        file.mkdir()
    else:
        file.write_text("PATH=/precious\n")
    given = file / "env" if what == "below a file" else file
    said = run("up", "--env-file", str(given))
    assert said.returncode == 1
    (line,) = said.stderr.splitlines()
    assert f"--env-file {given}: " in line
    assert file.is_dir() or file.read_text() == "PATH=/precious\n"


def test_a_folder_that_is_made_for_the_file_is_told(vcsim_binary: Path, tmp_path: Path) -> None:
    assert vcsim_binary.is_file()
    with NatsServer() as server:
        run("up", "--env-file", str(tmp_path / "taken" / "env"), "--nats-port", str(server.port))
    assert not (tmp_path / "taken").exists()
    arguments = command("up", "--env-file", str(tmp_path / "new" / "env"))
    with subprocess.Popen(arguments, env=BASE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == f"made the folder {tmp_path}/new\n"
        process.terminate()
        process.communicate(timeout=100)


def test_a_worker_that_does_not_come_up_is_said_with_its_log(vcsim_binary: Path) -> None:
    assert vcsim_binary.is_file()
    with Stack() as stack:
        stack.config.unlink()
        with pytest.raises(StackError, match=r"settings: .*No such file"):
            stack.start_worker()


def words_of(pid: int) -> list[str]:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def name_of(pid: int) -> str:
    """The name of a program, or nothing when it has just ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
