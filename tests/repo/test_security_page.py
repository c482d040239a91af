"""What the security page promises is tested: each test that it names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
PROMISED = PAGE.partition("## What is promised")[2].partition("\n## ")[0]
ROWS = [line for line in PROMISED.splitlines() if line.startswith("| ")][1:]
TESTS = "\n".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(test_\w+)`", PAGE))))
def test_a_test_that_is_named_is_there(name: str) -> None:
    assert f"def {name}(" in TESTS


def test_every_promise_names_a_test() -> None:
    assert len(ROWS) > 10
    assert [row for row in ROWS if "`test_" not in row] == []


def test_it_is_found_from_the_readme_and_from_the_policy() -> None:
    for page in ("README.md", "SECURITY.md"):
        assert "docs/security.md" in (ROOT / page).read_text("utf-8")
    assert "SECURITY.md" in PAGE
