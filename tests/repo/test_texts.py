"""What must not stand in the repository, and what must."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from vsphere_functions.cli import docs
from vsphere_functions.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
THIS = Path(__file__).relative_to(ROOT)
OPEN = re.compile(r"\b(FIXME|TODO|XXX|HACK)\b")
PLACES = re.compile(
    r"(?<![\w/.])/(?:work|root|home|Users|private|mnt)/\w"  # paths of one machine
    r"|https?://[^\s/\"'`)]*(?:artifactory|nexus|pypi|registry|mirror|proxy)[^\s\"'`)]*"  # package indexes
    r"|--(?:extra-)?index-url|\bindex-url\s*="
)
ALLOWED = {"Makefile": {"--index-url"}}


def tracked() -> list[Path]:
    """Every text file that is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [Path(name) for name in listed.split("\0") if name]
    return [file for file in found if (ROOT / file).is_file() and file != THIS and file.suffix != ".sum"]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """`file:line: text` of each line in which the pattern is found."""
    return [
        f"{file}:{number}: {line.strip()}"
        for file in tracked()
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_is_left_open() -> None:
    assert lines_with(OPEN) == []


def test_no_machine_and_no_package_index_is_named() -> None:
    assert lines_with(PLACES) == []


@pytest.mark.parametrize(
    "text",
    [
        "/home/me/x",
        "see /work/here",
        "--index-url x",
        "https://pypi.org/simple",
        "https://x.artifactory.example/",
    ],
)
def test_the_pattern_of_places_finds_them(text: str) -> None:
    assert PLACES.search(text)


@pytest.mark.parametrize("text", ["--no-emit-index-url", "https://github.com/x", "docs/work/x", "a/home/b"])
def test_the_pattern_of_places_finds_nothing_else(text: str) -> None:
    assert not PLACES.search(text)


def test_every_ignore_has_a_reason() -> None:
    bare = re.compile(
        r"#\s*noqa(?!: [A-Z]+\d+(, [A-Z]+\d+)*\s+[-#] \S)|#\s*type: ignore(?!\[[\w, -]+\]\s*[-#] \S)"
    )
    assert [line for line in lines_with(bare) if ".py:" in line] == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    marks = re.compile(r"mark\.(skip|xfail)|pytest\.(skip|xfail|importorskip)\(")
    assert [line for line in lines_with(marks) if line.startswith("tests/")] == []


def test_generated_documents_are_fresh() -> None:
    assert docs.main(["--check"]) == 0


def test_a_stale_document_is_named_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "README.md").write_text("# x\n<!-- functions -->\nold\n<!-- /functions -->\nrest\n")
    (tmp_path / "events").mkdir()
    assert docs.main(["--check"], tmp_path) == 1
    said = capsys.readouterr().err
    assert "stale: README.md" in said
    assert "stale: docs/reference/cli.md" in said
    assert "stale: create_machine.request.v1.json" in said
    assert docs.main([], tmp_path) == 0
    assert docs.main(["--check"], tmp_path) == 0
    readme = (tmp_path / "README.md").read_text()
    assert readme.startswith("# x\n<!-- functions -->\n| function |")
    assert readme.endswith("<!-- /functions -->\nrest\n")


@pytest.mark.parametrize("command", [command.__name__.replace("_", "-") for command in COMMANDS])
def test_every_command_is_documented(command: str) -> None:
    assert f"## {command}\n" in (ROOT / "docs" / "reference" / "cli.md").read_text()


def test_every_decision_is_one_page_with_its_four_parts() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:5] for page in pages] == [f"{number:04}-" for number in range(1, len(pages) + 1)]
    for page in pages:
        text = page.read_text()
        assert len(text.splitlines()) < 60, page.name
        parts = re.findall(r"^## (.+)$|^(Status): \w+", text, re.MULTILINE)
        assert ["".join(part) for part in parts] == ["Status", "Context", "Decision", "Consequences"], (
            page.name
        )


def test_every_link_inside_the_repository_leads_somewhere() -> None:
    broken = [
        f"{file}: {target}"
        for file in tracked()
        if file.suffix == ".md"
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / file).read_text())
        if not (ROOT / file.parent / target).exists()
    ]
    assert broken == []


def test_layers_are_checked_by_make_check() -> None:
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    for tool in ("ruff format --check", "ruff check", "mypy", "lint-imports", "cli.docs --check"):
        assert tool in recipe[1]


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = lines_with(re.compile(rf"(?<![\w.=]){re.escape(project['version'])}(?![\w.])"))
    assert [line for line in found if not line.startswith(("requirements/", "infra/"))] == [
        next(line for line in found if line.startswith("pyproject.toml"))
    ]


def test_make_lists_its_commands() -> None:
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    named = re.findall(r"^make (\w+)", said, re.MULTILINE)
    assert {"setup", "demo", "test", "check", "docs", "tools", "lock"} <= set(named)
