"""A secret in anything that a test writes fails that test, whoever writes it."""

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path

import pytest

from support.leaks import CANARIES, Leaks, forms
from vsphere_functions.local.vcenter import PASSWORD

TESTS = Path(__file__).parents[1]
INNER = "inner-canary-7d2"
CONFTEST = f"""
from support.leaks import Leaks

def pytest_configure(config):
    leaks = Leaks(["{INNER}"])
    leaks.begin()
    config.pluginmanager.register(leaks)
"""
TEST = """
import base64, logging, subprocess, sys
SECRET = "inner-" + "canary-7d2"
SAY = [sys.executable, "-c", "import sys; [s.write(sys.argv[1]) for s in (sys.stdout, sys.stderr)]", SECRET]

def test_its_own_output():
    print(SECRET)

def test_a_log_line():
    logging.getLogger("x").warning(SECRET)

def test_base64():
    print(base64.b64encode(b"ab" + SECRET.encode() + b"cd").decode())

def test_a_process_that_inherits():
    subprocess.run(SAY, check=True)

def test_a_process_with_a_pipe():
    subprocess.run(SAY, check=True, capture_output=True)

def test_a_process_with_a_file(tmp_path):
    with (tmp_path / "x").open("w") as out:
        subprocess.run(SAY, check=True, stdout=out, stderr=subprocess.DEVNULL)

def test_a_file_that_is_gone(tmp_path):
    with (tmp_path / "x").open("w") as out:
        subprocess.run(SAY, check=True, stdout=subprocess.DEVNULL, stderr=out)
    (tmp_path / "x").unlink()

def test_without_one():
    subprocess.run(SAY[:3] + ["inner-canary"], check=True)
"""


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["alone", "in parallel"])
def test_a_secret_fails_the_test_that_says_it_and_no_other(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_inner.py").write_text(TEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = re.findall(r"^ERROR \S+::test_(\w+)", done.stdout, re.MULTILINE)
    names = re.findall(r"def test_(\w+)", TEST)
    assert done.returncode == 1, done.stdout + done.stderr
    assert said == [name for name in names if name != "without_one"]


def test_this_suite_is_searched(pytestconfig: pytest.Config) -> None:
    assert [one for one in pytestconfig.pluginmanager.get_plugins() if isinstance(one, Leaks)]
    assert PASSWORD in CANARIES
    assert min(map(len, CANARIES)) > 10


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("after", range(4))
def test_base64_is_known_wherever_the_secret_stands_in_it(before: int, after: int) -> None:
    for secret in CANARIES:
        coded = b64encode(b"<" * before + secret.encode() + b">" * after)
        assert any(form in coded for form in forms(secret))
