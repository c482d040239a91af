"""A publisher that knows nothing of this code: the `nats` command, in both content modes."""

from __future__ import annotations

import base64
import json
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from support.commands import BASE
from support.described import looked_up, message_of, validator
from vsphere_events.envelope import Mode, Received, from_nats
from vsphere_functions.local.examples import example
from vsphere_functions.local.stack import Stack
from vsphere_functions.local.tools import ensure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_events.cloud_event import CloudEvent

BINARY = """
nats pub vsphere.request.default.{function} "$DATA" \
  -H ce-specversion:1.0 -H 'ce-id:{id}' -H 'ce-source:/producers/sh%C3%BC%25' \
  -H ce-type:io.vspherefunctions.{function}.request.v1 -H ce-datacontenttype:application/json
"""
STRUCTURED = """
nats pub vsphere.request.default.{function} "$(printf '{{"specversion": "1.0", "id": "{id}",
  "source": "/producers/shü%%", "type": "io.vspherefunctions.{function}.request.v1", "data": %s}}' "$DATA")"
"""


@pytest.fixture(scope="module")
def stack(vcsim_binary: Path) -> Iterator[Stack]:
    assert vcsim_binary.is_file()
    with Stack() as stack:
        stack.start_worker()
        yield stack


@pytest.fixture(scope="module")
def env(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a shell needs to find the stack, and `nats`."""
    (nats,) = ensure("natscli")
    home = tmp_path_factory.mktemp("home")
    return {**BASE, **stack.environment, "PATH": f"{nats.parent}:{BASE['PATH']}", "HOME": str(home)}


def shell(env: dict[str, str], script: str, data: object = None) -> str:
    """What a shell says to a script, of which every line has to succeed; `$DATA` is the data."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env={**env, "DATA": json.dumps(data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored(env: dict[str, str], stream: str, subject: str) -> tuple[dict[str, str], bytes]:
    """The last message that a stream has on a subject, as `nats` reads it; waits for it."""
    deadline = time.monotonic() + 60
    while True:
        found = subprocess.run(
            ["nats", "stream", "get", stream, "--last-for", subject, "--json"],
            env=env,
            capture_output=True,
            check=False,
        )
        if found.returncode == 0:
            break
        assert time.monotonic() < deadline, found.stderr
    message = json.loads(found.stdout)
    lines = base64.b64decode(message["hdrs"]).decode("ascii").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    return headers, base64.b64decode(message["data"])


def result(env: dict[str, str], function: str, token: str, mode: Mode) -> CloudEvent:
    """The result of a request, which lies in the stream in this mode and is as the AsyncAPI document says."""
    headers, body = stored(env, "VSPHERE_RESULTS", f"vsphere.result.default.{function}.{token}")
    received = from_nats(headers, body)
    assert isinstance(received, Received)
    assert received.mode is mode
    message = message_of(received.event, mode)
    validator(message["headers"]).validate(headers)
    validator(message["payload"]).validate(json.loads(body))
    assert received.event.extension("causationsource") == "/producers/shü%"
    return received.event


def test_attributes_are_percent_encoded_and_the_token_of_an_odd_id_is_its_hash(env: dict[str, str]) -> None:
    token = shell(env, "printf %s 'list 1/ü' | sha256sum | cut -c1-32").strip()
    shell(env, BINARY.format(function="list_machines", id="list%201/%C3%BC"), example("list_machines"))
    listed = result(env, "list_machines", token, Mode.BINARY)
    assert (listed.id, listed.extension("causationid")) == (f"{token}.result", "list 1/ü")
    assert listed.data["machineList"] == {}


@pytest.mark.parametrize(("mode", "script"), [(Mode.BINARY, BINARY), (Mode.STRUCTURED, STRUCTURED)])
def test_a_machine_lives_and_dies_by_events_of_the_shell(
    env: dict[str, str], mode: Mode, script: str
) -> None:
    """The structured body has no header at all, as it comes from OpenFaaS's connector."""
    name = f"{mode}-1"

    def ask(function: str) -> Any:
        request_id = f"{mode}-{function}"
        data = example(function, None if function == "list_machines" else name)
        shell(env, script.format(function=function, id=request_id), data)
        event = result(env, function, request_id, mode)
        assert event.type == f"io.vspherefunctions.{function}.succeeded.v1"
        return event.data

    made = ask("create_machine")
    assert name in ask("list_machines")["machineList"].values()
    assert ask("shut_down_machine")["powerState"] == "poweredOff"
    status = ask("get_machine_status")
    assert (status["providerID"], status["phase"]) == (made["providerID"], "Stopped")
    assert ask("delete_machine")["providerID"] == made["providerID"]


def test_whoever_subscribes_first_hears_the_result(env: dict[str, str], stack: Stack) -> None:
    subject = "vsphere.result.default.list_machines.live"
    listening = ["nats", "sub", "--count", "1", "--raw", subject]
    with subprocess.Popen(listening, env=env, stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while subject not in subscriptions(stack):
            assert time.monotonic() < deadline
        shell(env, BINARY.format(function="list_machines", id="live"), example("list_machines"))
        heard, _ = process.communicate(timeout=60)
    assert "machineList" in json.loads(heard)


def subscriptions(stack: Stack) -> str:
    with urllib.request.urlopen(f"{stack.nats.monitor_url}/connz?subs=true", timeout=5) as answer:
        return str(answer.read().decode())


def test_all_that_is_wrong_with_a_request_comes_back_in_its_failed_result(env: dict[str, str]) -> None:
    wrong = {"machineName": "", "providerSpec": {"memory": "lots"}, "bogus": 1}
    shell(env, BINARY.format(function="create_machine", id="wrong"), wrong)
    failed = result(env, "create_machine", "wrong", Mode.BINARY)
    assert failed.type == "io.vspherefunctions.create_machine.failed.v1"
    error = failed.data["error"]
    assert error["code"] == "InvalidArgument"
    assert {"machineName", "providerSpec.memory"} <= {one.get("field") for one in error["details"]}
    assert any("unknown" in one["reason"] for one in error["details"])
    assert "bogus" not in json.dumps(error), "it may be a secret"


def test_what_is_no_event_is_a_dead_letter_that_says_why(env: dict[str, str]) -> None:
    shell(env, "nats pub vsphere.request.default.get_machine_status 'hello' -H x-of:theirs")
    headers, body = stored(env, "VSPHERE_DEAD", "vsphere.dead.default.get_machine_status")
    assert body == b"hello"
    assert headers["x-of"] == "theirs"
    validator(looked_up("#/components/messages/dead")["headers"]).validate(headers)
    assert headers["vsphere-code"] == "InvalidArgument"


def test_a_request_that_no_stream_takes_is_refused_to_its_publisher(env: dict[str, str]) -> None:
    """E25: an unknown function, an unknown vCenter."""
    for subject in ("vsphere.request.default.fly", "vsphere.request.blue.list_machines"):
        assert "No responders" in shell(env, f"nats req {subject} x")
