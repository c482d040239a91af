"""Searches what tests write, and the processes that they start: a secret in it fails the test that saw it written.

Looked through are the output that pytest captures, the files and pipes that processes were given for theirs, and the
logs of NATS servers. A secret is found as it is and in base64.
"""

import os
import re
import stat
import subprocess
from base64 import b64encode
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import PASSWORD

CANARIES = (PASSWORD, "swordfish-3f1c", "tiger-3f1c9e", "do-not-show")
"""The simulated vCenter's password, with which nearly all tests log in, and what tests send as user data."""

_TOLD = re.compile(rb"GOVC_PASSWORD\W+" + re.escape(PASSWORD.encode()))
"""`up` tells whoever runs it how to log in to the simulator: that is what it is for."""


def forms(secret: str) -> Iterator[bytes]:
    """Give a secret as it is, and as it stands in base64 behind 0, 1 or 2 bytes of something else."""
    yield secret.encode()
    for before in range(3):
        coded = b64encode(b"x" * before + secret.encode())
        yield coded[-(-before * 4 // 3) : len(coded) - 4]


@dataclass(slots=True)
class Written:
    """A file that a process writes to, open for reading: it may be deleted before it is looked at."""

    process: Any
    name: str
    descriptor: int
    at: int = 0

    def news(self, overlap: int) -> bytes:
        """Give what was not looked at yet, and a little before it."""
        start = max(0, self.at - overlap)
        text = b"".join(iter(lambda: os.read(self.descriptor, 1 << 20), b"")) if self._seek(start) else b""
        self.at = start + len(text)
        return text

    def _seek(self, start: int) -> bool:
        return os.lseek(self.descriptor, start, os.SEEK_SET) == start


@dataclass(slots=True, eq=False)
class Leaks:
    """The plugin; `begin` lets it hear of the processes that are started."""

    canaries: Sequence[str] = CANARIES
    _files: list[Written] = field(default_factory=list)
    _said: list[tuple[str, bytes]] = field(default_factory=list)

    def begin(self) -> None:
        """Look over the shoulder of whatever starts a process, from now on."""
        start, communicate, stop = subprocess.Popen.__init__, subprocess.Popen.communicate, NatsServer.stop

        def started(process: Any, *arguments: Any, **more: Any) -> None:
            start(process, *arguments, **more)
            self._files += filter(
                None, (self._file(process, more.get(name)) for name in ("stdout", "stderr"))
            )

        def communicated(process: Any, *arguments: Any, **more: Any) -> Any:
            texts = communicate(process, *arguments, **more)
            for text in filter(None, texts):
                self._said.append((str(process.args), text.encode() if isinstance(text, str) else text))
            return texts

        def stopped(server: NatsServer) -> None:
            self._said.append(("nats-server", server.log.encode()))
            stop(server)

        subprocess.Popen.__init__ = started  # type: ignore[method-assign,assignment]  # what is started is not ours to change
        subprocess.Popen.communicate = communicated  # type: ignore[method-assign,assignment]  # likewise
        NatsServer.stop = stopped  # type: ignore[method-assign,assignment]  # likewise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Fail a test after whose end something is found."""
        report: Any = yield
        if report.when == "teardown" and (found := self.found(report.sections)):
            report.outcome, report.longrepr = "failed", f"{item.nodeid} shows a secret:\n" + "\n".join(found)
        return report

    def found(self, sections: Iterable[tuple[str, str]]) -> list[str]:
        """Name what holds a secret, each with the line that does."""
        longest = max(map(len, self.canaries)) * 2
        texts = [*self._said, *((name, text.encode("utf-8", "replace")) for name, text in sections)]
        texts += [(one.name, one.news(longest)) for one in self._files]
        self._said.clear()
        for ended in [one for one in self._files if one.process.poll() is not None]:
            os.close(ended.descriptor)
            self._files.remove(ended)
        return [f"{name}: {line}" for name, text in texts for line in self._lines(text)]

    def _lines(self, text: bytes) -> Iterator[str]:
        text = _TOLD.sub(b"", text)
        for form in (form for secret in self.canaries for form in forms(secret)):
            if form in text:
                line = next(line for line in text.split(b"\n") if form in line)
                yield line.replace(form, b"********").decode("utf-8", "replace")[:2000]

    @staticmethod
    def _file(process: Any, stream: Any) -> Written | None:
        if stream is None or (isinstance(stream, int) and stream < 0):
            return None
        number = stream if isinstance(stream, int) else stream.fileno()
        if not stat.S_ISREG(os.fstat(number).st_mode):
            return None
        return Written(process, str(process.args), os.open(f"/proc/self/fd/{number}", os.O_RDONLY))
