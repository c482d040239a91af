"""Texts made to keep a worker busy, to unpack into too much, or to be read as something else."""

import ast
import gzip
import re
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import NoReturn

import pytest

from events.requests import SPEC
from support.patterns import ROOT, patterns, worst
from vsphere_events.machine import CreateMachineRequest
from vsphere_functions.bootstrap.boot import Boot

PATTERNS = list(patterns())


def test_the_patterns_are_found() -> None:
    texts = {text: searched for _, text, searched in PATTERNS}
    assert len(texts) > 40
    assert texts["(/[A-Za-z0-9_.-]+)+"] is False
    assert texts["[A-Za-z0-9+/=_-]{64,}"] is True


@pytest.mark.parametrize(
    ("pattern", "searched"), [one[1:] for one in PATTERNS], ids=[one[0] for one in PATTERNS]
)
def test_no_pattern_backtracks(pattern: str, searched: bool) -> None:
    """One that did would go on until the test's time is up."""
    compiled = re.compile(pattern)
    for text in worst(pattern):
        compiled.fullmatch(text)
        compiled.match(text)
        if searched:
            compiled.search(text)


def test_a_pattern_that_does_has_texts_that_show_it() -> None:
    assert "a" * 300_000 + "\x01" in worst("(a+)+b")
    assert "x" + "-b" * 300_000 + "\x01" in worst("x(-b)*c")


@pytest.mark.parametrize("by", ["cloud-init", "ignition"])
def test_user_data_that_is_packed_is_carried_and_never_unpacked(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("unpacked")

    bomb = b64encode(gzip.compress(b"\0" * 20_000_000)).decode()
    for module, name in ((gzip, "decompress"), (zlib, "decompress"), (zlib, "decompressobj")):
        monkeypatch.setattr(module, name, refuse)
    request = CreateMachineRequest.parse({"machineName": "w1", "providerSpec": SPEC | {"bootstrap": by}})
    boot = Boot.of("w1", "i", request.provider_spec, bomb)
    values = [] if boot.wrong else list(boot.guestinfo([]).values())
    monkeypatch.undo()
    carried = [gzip.decompress(b64decode(one)).decode() for one in values if one.startswith("H4sI")]
    assert any(bomb in one or b64encode(bomb.encode()).decode() in one for one in carried)


def test_nothing_that_comes_from_outside_is_read_as_yaml_pickle_or_python() -> None:
    """So there are no aliases to multiply, no tags to build objects from, no code to run."""
    readers = {"yaml", "pickle", "marshal", "shelve", "jsonpickle"}
    found = set()
    for file in [file for part in ("events", "functions") for file in (ROOT / part).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if called in {"eval", "exec", "__import__"} or readers & {
                name.partition(".")[0] for name in names
            }:
                found.add(str(file.relative_to(ROOT)))
    assert found == {str(Path("functions/vsphere_functions/cli/infra/text.py"))}
