"""The container image by hand: a Dockerfile read, its commands run below a folder, its entry started as it says.

Absolute paths below /opt and /src are those of the image and lie below the folder; all others are the machine's.
"""

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.infra.__main__ import INFRA
from vsphere_functions.local.children import start

CHECKOUT = INFRA.parent
FOLDER = INFRA / "container"
SCRIPTS = ("vsphere-functions", "functions-framework")


@dataclass
class Stage:
    """What stands between two FROM lines, as (instruction, rest)."""

    base: str
    name: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        """What follows each instruction of a kind."""
        return [rest for name, rest in self.steps if name == instruction]

    def pairs(self, instruction: str) -> dict[str, str]:
        """What ENV, ARG or LABEL lines set."""
        words = (word for rest in self.all(instruction) for word in shlex.split(rest))
        return dict(word.split("=", 1) for word in words)

    def words(self, instruction: str) -> list[str]:
        """The command of an ENTRYPOINT or HEALTHCHECK in its JSON form."""
        (rest,) = self.all(instruction)
        found: list[str] = json.loads(rest[rest.index("[") :])
        return found


def stages(dockerfile: Path) -> list[Stage]:
    """Read a Dockerfile; continued lines are joined, comments left out."""
    text = "".join(line for line in dockerfile.read_text().splitlines(keepends=True) if line[0] != "#")
    found: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        name, _, rest = line.partition(" ")
        if name == "FROM":
            base, _, called = rest.partition(" AS ")
            found.append(Stage(base, called))
        elif found and name:
            found[-1].steps.append((name, rest))
    return found


@dataclass(frozen=True)
class Image:
    """An image below a folder: `build` installs it by its own commands, `link` puts this environment in its place."""

    root: Path

    @property
    def home(self) -> Path:
        """Where everything of ours is."""
        return self.inside(facts.HOME)

    def inside(self, path: str) -> Path:
        """Where a path of the image is."""
        return self.root / path.lstrip("/")

    def here(self, text: str) -> str:
        """Put the folder before the image's own paths in a command or a variable."""
        return re.sub(r"(?<![\w.])(?=/(opt|src)(/|\b))", str(self.root), text)

    def build(self, base: str) -> None:
        """Do what the build stage says, with `base` for the base image's Python."""
        builder, _ = stages(FOLDER / "Dockerfile")
        python = self.root / "base" / "python"
        python.parent.mkdir()
        python.symlink_to(base)
        place = self.root
        for name, rest in builder.steps:
            if name == "WORKDIR":
                place = self.inside(rest)
                place.mkdir(parents=True)
            elif name == "COPY":
                self._copy(rest, place)
            elif name == "RUN":
                path = f"{python.parent}:{os.environ['PATH']}"
                subprocess.run(
                    ["/bin/sh", "-euc", self.here(rest)],
                    cwd=place,
                    env=_plain(os.environ | {"PATH": path}),
                    check=True,
                )
            else:
                raise AssertionError(f"{name} is not known here")

    def link(self) -> None:
        """Take this environment for what the build stage installs, and copy the rest."""
        (self.home / "bin").mkdir(parents=True)
        python = self.home / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        for name in SCRIPTS:
            (self.home / "bin" / name).symlink_to(Path(sys.executable).with_name(name))
        builder, _ = stages(FOLDER / "Dockerfile")
        for rest in builder.all("COPY"):
            if facts.HOME in rest:
                self._copy(rest, self.root)

    def start(self, log: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start the entry as a platform does: with the image's environment, the platform's and no other."""
        return self.run(log, [*self._found("ENTRYPOINT"), *arguments], environment)

    def run(self, log: Path, command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        """Start another command in the image."""
        with log.open("a") as out:
            return start(
                command,
                cwd=self._workdir(),
                env=self._environment() | environment,
                stdout=out,
                stderr=out,
            )

    def healthy(self, **environment: str) -> bool:
        """Run the health check."""
        done = subprocess.run(
            self._found("HEALTHCHECK"),
            cwd=self._workdir(),
            env=self._environment() | environment,
            check=False,
        )
        return done.returncode == 0

    def written(self) -> dict[str, tuple[int, int]]:
        """All files with their size and time of change, to see that none appears or changes."""
        return {
            str(file): (seen.st_size, seen.st_mtime_ns)
            for file in sorted(self.root.rglob("*"))
            if not stat.S_ISDIR((seen := file.lstat()).st_mode)
        }

    def _environment(self) -> dict[str, str]:
        given = {
            name: self.here(value) for name, value in stages(FOLDER / "Dockerfile")[-1].pairs("ENV").items()
        }
        # A checkout that is not the installed one says so by this variable.
        paths = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        installed = (self.home / "pyvenv.cfg").exists()
        return {**given, "HOME": str(self.root), **({} if installed else paths)}

    def _workdir(self) -> Path:
        (place,) = stages(FOLDER / "Dockerfile")[-1].all("WORKDIR")
        return self.inside(place)

    def _found(self, instruction: str) -> list[str]:
        """Find a command on the image's PATH."""
        command, *rest = stages(FOLDER / "Dockerfile")[-1].words(instruction)
        found = shutil.which(command, path=self._environment()["PATH"])
        assert found, command
        return [found, *rest]

    def _copy(self, rest: str, place: Path) -> None:
        options = [word for word in rest.split() if word.startswith("--")]
        *sources, target = [word for word in rest.split() if not word.startswith("--")]
        into = self.inside(target) if target.startswith("/") else place / target
        for source in sources:
            given = CHECKOUT / source
            to = into / given.name if target.endswith("/") else into
            to.parent.mkdir(parents=True, exist_ok=True)
            if given.is_dir():
                shutil.copytree(given, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(given, to)
                to.chmod(0o755 if "--chmod=755" in options else 0o644)


def _plain(environment: dict[str, str]) -> dict[str, str]:
    """An environment without what Python itself would heed."""
    return {
        name: value for name, value in environment.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }


def pinned(requirements: Path) -> Iterator[tuple[str, str]]:
    """The packages and versions of a lock file."""
    yield from re.findall(r"^([a-z0-9-]+)==([^ ;]+)", requirements.read_text(), re.MULTILINE)
