"""Fuzz all targets with atheris, guided by coverage: `python -m fuzz --seconds 600`.

Each target has its share of the time. Exit status 1 when something was found; its bytes and the log stay in
`build/fuzz/<target>`. `--seed` and `--target` repeat a run.
"""

import argparse
import re
import secrets
import subprocess
import sys
from pathlib import Path

from fuzz.targets import TARGETS

FOLDER = Path(__file__).parents[2] / "build" / "fuzz"


def main() -> int:
    """Run the targets one after the other; 1 when any has found something."""
    options = _options()
    names = [options.target] if options.target else list(TARGETS)
    share = max(1, options.seconds // len(names))
    found = [name for name in names if not _run(name, share, options.seed)]
    sys.stdout.write(f"found something: {', '.join(found)}\n" if found else "found nothing\n")
    return 1 if found else 0


def _run(name: str, seconds: int, seed: int) -> bool:
    """Fuzz one target; whether it has kept its promises."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "fuzz.guided", name, str(seconds), str(seed), str(folder)]
    with (folder / "log").open("w+") as log:
        done = subprocess.run(command, stdout=log, stderr=log, check=False)
        log.seek(0)
        said = log.read()
    runs, covered = _last(r"number_of_executed_units: (\d+)", said), _last(r"cov: (\d+)", said)
    sys.stdout.write(f"{name}: {seconds} s, seed {seed}, {runs} inputs, {covered} branches\n")
    if done.returncode:
        sys.stdout.write(said[-4000:])
    sys.stdout.flush()
    return done.returncode == 0


def _last(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text)
    return found[-1] if found else "no"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="for all targets together")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**31 - 1) + 1, help="of the mutations")
    parser.add_argument("--target", choices=sorted(TARGETS), help="this one alone")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
