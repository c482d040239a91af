"""The tool of the CloudEvents project as a foreign client of the HTTP host, and as a foreign reader of its answers."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from support.http_host import HttpHost, free_port, request, running, settings_of, until
from support.machines import SPEC, TAGS, vms
from vsphere_events.envelope import Mode, to_http
from vsphere_functions.local.children import end, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_events.cloud_event import CloudEvent
    from vsphere_functions.local.vcenter import SimulatedVCenter

SOURCE = "/producers/the-tool"
MACHINE = {"machineName": "tool-1", "providerSpec": {"tags": TAGS}}


@pytest.fixture(scope="module")
def router(shared_vcenter: SimulatedVCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpHost]:
    with running(tmp_path_factory.mktemp("router"), settings_of(shared_vcenter)) as host:
        yield host


def described(event: CloudEvent, mode: Mode) -> dict[str, Any]:
    """An event in the tool's own YAML."""
    attributes = {name: str(value) for name, value in event.attributes().items()}
    core = {name: attributes.pop(name) for name in ("specversion", "type", "id", "source")}
    more = {
        name: attributes.pop(name) for name in ("time", "subject", "datacontenttype") if name in attributes
    }
    return {
        "Mode": mode.value,
        "ContextAttributes": {**core, **more, "Extensions": attributes},
        "Data": json.dumps(event.data),
    }


def run(tool: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tool, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("mode", Mode)
def test_what_it_sends_is_done_and_its_result_is_there(
    cloudevents: Path, router: HttpHost, shared_vcenter: SimulatedVCenter, mode: Mode
) -> None:
    data = {"machineName": f"sent-{mode.value}", "providerSpec": SPEC}
    same = request("create_machine", id=f"sent-{mode.value}", source=SOURCE, data=data)
    flags = {"id": same.id, "source": SOURCE, "type": same.type, "mode": mode.value, "data": json.dumps(data)}
    words = [f"--{name}={value}" for name, value in flags.items()]
    sent = run(cloudevents, "send", router.url, *words, "--datacontenttype=application/json", "--timenow")
    assert sent.returncode == 0, sent.stderr
    shared_vcenter.control.reset_calls()
    result = router.call(same)
    assert result.data["nodeName"] == f"sent-{mode.value}"
    assert shared_vcenter.control.calls().total() == 0, "it is the stored result of what the tool has sent"


def test_what_is_refused_it_reports(cloudevents: Path, router: HttpHost) -> None:
    sent = run(cloudevents, "send", router.url, "--id=1", f"--source={SOURCE}", "--type=com.example.order")
    assert sent.returncode != 0
    assert "400" in sent.stderr


def test_it_invokes_functions_from_files_in_both_modes(
    cloudevents: Path, router: HttpHost, shared_vcenter: SimulatedVCenter, tmp_path: Path
) -> None:
    new = request("create_machine", source=SOURCE, data={"machineName": "tool-1", "providerSpec": SPEC})
    there = [
        request(name, source=SOURCE, data=MACHINE, extensions={"traceparent": "00-1-2-01"})
        for name in ("get_machine_status", "shut_down_machine")
    ]
    for mode in Mode:
        (tmp_path / "made.yaml").write_text(yaml.safe_dump_all(described(one, mode) for one in (new, *there)))
        done = run(cloudevents, "invoke", router.url, "-f", tmp_path)
        assert done.returncode == 0, done.stderr
        assert any("tool-1" in path for path in vms(shared_vcenter))
    gone = request("delete_machine", source=SOURCE, data=MACHINE)
    (tmp_path / "made.yaml").write_text(yaml.safe_dump(described(gone, Mode.STRUCTURED)))
    assert run(cloudevents, "invoke", router.url, "-f", tmp_path).returncode == 0
    assert not any("tool-1" in path for path in vms(shared_vcenter))


@contextmanager
def listening(tool: Path, command: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """The tool as a server: `listen` or `raw`; its address, and what it writes."""
    port, out = free_port(), folder / f"{command}.out"
    with out.open("w") as file:
        process = start([str(tool), command, "-P", str(port)], stdout=file, stderr=file)

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/history").status_code < 500
        except httpx.TransportError:
            return False

    try:
        until(answers, 60)
        yield f"http://127.0.0.1:{port}", out
    finally:
        end(process)


def read(event: CloudEvent, mode: Mode) -> dict[str, Any]:
    """An event as the tool writes what it has read: extensions as headers are spelled, structured data in a line."""
    written = described(event, mode)
    text = json.dumps(event.data, separators=(",", ":"), ensure_ascii=False)
    extensions = written["ContextAttributes"]["Extensions"]
    if mode is Mode.BINARY:
        extensions = {name.capitalize(): value for name, value in extensions.items()}
    attributes = {**written["ContextAttributes"], "Extensions": extensions}
    return {**written, "ContextAttributes": attributes, "Data": text + "\n" * (mode is Mode.STRUCTURED)}


@pytest.mark.parametrize("mode", Mode)
def test_it_reads_our_answers_as_we_meant_them(
    cloudevents: Path, router: HttpHost, tmp_path: Path, mode: Mode
) -> None:
    event = request("delete_machine", f"read-{mode.value}", extensions={"traceparent": "00-1-2-01"})
    answer = router.send(event, mode)
    meant = router.call(event, mode)
    with listening(cloudevents, "listen", tmp_path) as (url, _):
        kept = {
            name: value for name, value in answer.headers.items() if name.startswith(("ce-", "content-type"))
        }
        assert httpx.post(url, headers=kept, content=answer.content).status_code == 200
        (tmp_path / "got.yaml").write_text(httpx.get(f"{url}/history", params={"wait": 1}).text)
    for wanted, status in ((meant, 0), (replace(meant, subject="other"), 1)):
        (tmp_path / "want.yaml").write_text(yaml.safe_dump(read(wanted, mode)))
        done = run(cloudevents, "diff", tmp_path / "want.yaml", tmp_path / "got.yaml")
        assert done.returncode == status, done.stdout


def test_it_sees_the_headers_that_we_write(cloudevents: Path, tmp_path: Path) -> None:
    event = request("get_machine_status", source="/producers/shü%")
    headers, body = to_http(event, Mode.BINARY)
    with listening(cloudevents, "raw", tmp_path) as (url, out):
        assert httpx.post(url, headers=headers, content=body).status_code == 200
        until(lambda: body.decode() in out.read_text(), 60)
        dump = out.read_text()
    for line in (f"Ce-Id: {event.id}", f"Ce-Type: {event.type}", "Ce-Source: /producers/sh%C3%BC%25"):
        assert line in dump.splitlines()
