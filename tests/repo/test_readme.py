"""The README and the guide for producers say what works: their shell and Python blocks are run as they are typed."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.commands import BASE, up
from vsphere_events.machine_volume import MachineVolume
from vsphere_events.subjects import request_token
from vsphere_functions.bootstrap.volumes import mounted
from vsphere_functions.local.tools import ensure, put
from vsphere_functions.runtime.settings_load import load

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PRODUCERS = (ROOT / "docs" / "guides" / "producers.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def checkout(vcsim_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder like a checkout after `make setup tools`, in which `up` runs as the README types it."""
    assert vcsim_binary.is_file()
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "functions").symlink_to(ROOT / "functions")
    bin_ = folder / ".venv" / "bin"
    bin_.mkdir(parents=True)
    for name in ("python", "vsphere-functions", "functions-framework"):
        (bin_ / name).symlink_to(Path(sys.executable).with_name(name))
    (bin_ / "activate").write_text(f'PATH="{bin_}:$PATH"\n')
    for binary in ensure("natscli", "govc"):
        put(binary, bin_)
    (folder / "build").mkdir()
    with up(folder / "build"):
        yield folder


def shell(checkout: Path, script: str) -> str:
    """What a shell says to a script, of which every line has to succeed."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=checkout,
        env={**BASE, "PORT": port, "HOME": str(checkout), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_session_in_another_terminal_does_what_the_readme_says(checkout: Path) -> None:
    started, *session = [block for block in blocks(README, "sh") if "make demo" not in block]
    assert "vsphere-functions up --env-file build/env\n" in started
    said = shell(checkout, "\n".join(session))
    answers = re.findall(r"io\.vspherefunctions\.(\w+)\.succeeded\.v1", said)
    by_command = ["create_machine", "create_volume", "attach_volume", "delete_machine", "destroy_volume"]
    create_and_delete = ["create_machine", "delete_machine"]
    assert answers == by_command + create_and_delete * 3, (
        "then in both modes by nats, over HTTP in both modes"
    )
    assert re.findall(r"^ *Name: +(\S+)$", said, re.MULTILINE) == ["worker-1", "worker-2", "worker-2"]
    assert said.count('{"stream":"VSPHERE_REQUESTS"') == 4
    assert (
        shell(
            checkout,
            f"{session[0].partition('vsphere-functions example')[0]}\ngovc find / -type m -name 'worker-*'",
        )
        == ""
    )


def test_the_commands_of_make_are_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    typed = {word for line in re.findall(r"^make (.+)$", README, re.MULTILINE) for word in line.split()}
    assert typed >= {"demo", "setup", "tools"}
    assert typed <= targets


def test_the_settings_of_the_readme_are_settings(tmp_path: Path) -> None:
    (block,) = blocks(README, "toml")
    (tmp_path / "settings.toml").write_text(block)
    settings = load(tmp_path / "settings.toml", environ={})
    assert settings.vcenters["default"].secret == "vc-main"


def test_the_python_of_the_guide_does_what_it_says_when_it_is_saved_and_run(
    checkout: Path, tmp_path: Path
) -> None:
    first, second = blocks(PRODUCERS, "python")
    said = python(checkout, tmp_path, first)
    assert said.startswith("worker-7 stands\n")
    assert "the machine is poweredOff\n" in said
    assert said.endswith("\nStopped\n")
    said = python(checkout, tmp_path, f"{first}\n\n{second}")
    assert "destroy the machine is gone" in said
    assert said.splitlines()[-1].startswith("NotFound there is no machine worker-7")


def python(checkout: Path, folder: Path, script: str) -> str:
    """What a Python script says that a producer has saved beside the stack."""
    (folder / "producer.py").write_text(script)
    return shell(checkout, f"set -a; . build/env; set +a; {sys.executable} {folder / 'producer.py'}")


def test_the_shell_of_the_guide_names_a_token_and_a_label() -> None:
    token, label = re.findall(r"`(printf .+?)`", PRODUCERS)
    assert bash(token, ID="req 1/ü") == request_token("req 1/ü")
    volume = MachineVolume.parse({"id": "pg-data", "mountPath": "/data"})
    assert f"v-{bash(label)}" == mounted([volume], ["0" * 32])[0].label


def bash(script: str, **env: str) -> str:
    """What a line of shell says."""
    return subprocess.run(
        ["bash", "-c", script], env={**BASE, **env}, capture_output=True, text=True, check=True
    ).stdout.strip()
