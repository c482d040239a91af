"""No server is left behind, however the process that started it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vsphere_functions.local import children

PARENT = """
import sys, time
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
with NatsServer() as server, SimulatedVCenter() as vcenter:
    print(server.pid, vcenter.pid, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_parent_that_is_killed_leaves_no_server(
    vcsim_binary: Path, tmp_path: Path, how: signal.Signals
) -> None:
    assert vcsim_binary.is_file()
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed parent cannot remove the store
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(alive(pid) for pid in pids)
        parent.send_signal(how)
        parent.wait(60)
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"still there: {[pid for pid in pids if alive(pid)]}"
    assert not list(tmp_path.glob("vcsim-*"))


def test_without_setpriv_the_shim_does_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    monkeypatch.setattr(shutil, "which", lambda _: None)
    command = children.dying_with_parent([sleep, "60"])
    assert command[:2] == [sys.executable, "-c"]
    script = f"import subprocess, time; p = subprocess.Popen({command!r}); print(p.pid, flush=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        while Path(f"/proc/{pid}/comm").read_text() != "sleep\n":
            assert parent.poll() is None
        parent.kill()
    deadline = time.monotonic() + 60
    while alive(pid):
        assert time.monotonic() < deadline


def test_a_child_that_does_not_end_is_killed() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('set', flush=True); signal.pause()"
    process = children.start([sys.executable, "-c", stubborn], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "set\n"
        children.end(process, seconds=0.1)
        assert process.returncode == -signal.SIGKILL
