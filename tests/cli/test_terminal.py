"""What others have written does nothing to the terminal of whoever looks at it."""

import json

import pytest

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.outcome import Progress
from vsphere_functions.cli import invoke
from vsphere_functions.cli.given import tell

HOSTILE = ["a\x1b[2Jb", "a\nvsphere-functions: all is well", "a\u202eb", "a\x9b31mb", "a\x00b", "\U000e0041"]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_message_is_one_printable_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    tell(text)
    invoke._tell(Progress(step="clone", message=text))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("text", [*HOSTILE, "Köln €"])
def test_a_result_is_one_printable_line_and_the_same_json(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    invoke._print(CloudEvent("1", "/s", "t", {"nodeName": text}))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.isprintable()
    assert json.loads(line)["data"] == {"nodeName": text}
    assert ("Köln" in line) == ("Köln" in text)
