"""`make demo`: the main job, from the first start to the last word."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from support.commands import BASE, alive, children_of, command, run
from vsphere_functions.local import demo
from vsphere_functions.local.demo_show import DemoError
from vsphere_functions.local.demo_volume import MACHINES


def test_the_demo_does_the_main_job_and_leaves_nothing(vcsim_binary: Path) -> None:
    assert vcsim_binary.is_file()
    done = run("demo", timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    for name in demo.NAMES:
        assert re.search(
            rf"^{name}  io\.vspherefunctions\.create_machine\.succeeded\.v1$", said, re.MULTILINE
        )
        assert f"{name}  Running  poweredOn" in said
        assert f"  nodeName: {name}" in said
        assert re.search(rf"^{name}  vsphere://eu-1/[0-9a-f-]+$", said, re.MULTILINE), "as it is listed"
    assert len(set(re.findall(r"  providerID: (\S+)", said))) == 3
    assert said.count("  lastKnownState: {") == 2 * 3, "of creates and of deletes"
    in_creation = re.search(r"^in creation: (.+)$", said, re.MULTILINE)
    assert in_creation is not None
    assert set(in_creation[1].split(", ")) & set(demo.NAMES)
    assert "worker-0  Stopped  poweredOff\n" in said
    assert "machines by govc: 3" in said
    assert re.search(r"InvalidArgument: 4 problems.*\n(  providerSpec\.\w+: .*\n){4}", said)
    volume_outlives(said)
    assert "as before: govc finds the same" in said
    assert "everything is stopped" in said


def volume_outlives(said: str) -> None:
    """One machine wrote into the volume and was deleted; the next one read the same, and was told the same disk."""
    first, second = MACHINES

    def lines(pattern: str) -> list[str]:
        return re.findall(f"^{pattern}$", said, re.MULTILINE)

    (wrote,) = lines(rf"{first}  wrote (\d+ bytes, SHA-256 [0-9a-f]{{64}}) .*")
    assert lines(f"{second}  read  (.*)") == [wrote]
    disks = [lines(rf"{name}  is told What=(/dev/disk/by-id/wwn-0x\w{{32}})") for name in MACHINES]
    assert len(disks[0]) == 1
    assert disks[0] == disks[1]
    assert lines("data-1  attached to (.*)") == [first, second]
    for name in MACHINES:
        assert lines(f"{name}  is told Where=(.*)") == ["/srv/database"]
        assert lines(
            rf"{name}  detached \[we ird \(1\)\] vols/.+/data-1\.vmdk  vsphere-volume://default/default/data-1"
        )
    assert lines(rf"FailedPrecondition: .*in use by {second}; nothing was deleted")
    assert lines("volumes: none")


def test_on_a_terminal_the_demo_shows_a_bar_for_each_machine(vcsim_binary: Path) -> None:
    assert vcsim_binary.is_file()
    primary, secondary = pty.openpty()
    env = {**BASE, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        command("demo"), env=env, stdin=secondary, stdout=secondary, stderr=secondary
    ) as process:
        os.close(secondary)
        said = read_all(primary)
        assert process.wait(100) == 0, said
    percentages = set(map(int, re.findall(r"(\d+)%", said)))
    assert percentages > {0, 100}
    assert "━" in said


def test_an_interrupted_demo_stops_everything(vcsim_binary: Path) -> None:
    assert vcsim_binary.is_file()
    with subprocess.Popen(command("demo"), env=BASE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "clone" not in (line := process.stdout.readline()):
            assert line, "it should come to a clone"
        below = children_of(process.pid)
        process.terminate()
        process.stdout.read()
        assert process.wait(100) == 130
    assert len(below) >= 3
    assert not any(map(alive, below))


def test_a_promise_that_is_broken_is_told_with_the_worker_s_log(
    vcsim_binary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vcsim_binary.is_file()

    async def broken(*_: object) -> None:
        raise DemoError("there should be three machines")

    monkeypatch.setattr(demo, "main_job", broken)
    assert demo.demo() == 1
    said = capsys.readouterr().out
    assert "there should be three machines" in said
    assert "worker starts" in said


def test_a_vcenter_that_is_not_as_before_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DemoError, match="as before"):
        demo.compare(Console(), ["/DC0", "/DC0/vm/old"], ["/DC0", "/DC0/vm/new"])
    assert capsys.readouterr().out.splitlines()[1:] == ["+ /DC0/vm/new", "- /DC0/vm/old"]


def read_all(terminal: int) -> str:
    """What is shown until nobody holds the other end; reading then fails (EIO)."""
    shown = bytearray()
    try:
        while part := os.read(terminal, 65536):
            shown += part
    except OSError:
        pass
    finally:
        os.close(terminal)
    return shown.decode()
