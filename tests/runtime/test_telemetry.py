"""What other people's libraries log becomes lines of our log."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import logging
from vsphere_functions.runtime import telemetry

telemetry.configure()
telemetry.configure()
logging.getLogger("asyncio").info("nothing")
try:
    raise ValueError("a-secret")
except ValueError:
    logging.getLogger("asyncio").exception("%s was never retrieved\\nfuture: a-secret", "a task")
"""


def test_a_warning_of_a_library_is_one_line_of_json_without_data() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    said = json.loads(line)
    assert (said["event"], said["logger"], said["level"]) == (
        "a task was never retrieved",
        "asyncio",
        "error",
    )
    assert said["exception"] == "ValueError"
    assert "a-secret" not in line.replace('raise ValueError("a-secret")', "")
