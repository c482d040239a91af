"""Run machines and volumes through a storm, and compare the vCenter with what the results say.

`python -m chaos --seed 7 --requests 500`; exit status 1 with everything that differs.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from rich.console import Console

from chaos.breaks import BREAKS
from chaos.report import show
from chaos.run import IDLE_SECONDS, run
from chaos.schedule import draw
from vsphere_functions.local.stack import interruptible
from vsphere_functions.local.tools import ensure


def main() -> int:
    """Run once; 0 when all agrees."""
    options = _options()
    console = Console(width=160 if not sys.stdout.isatty() else None)
    schedule = draw(options.seed, options.requests, options.kills)
    console.print(f"seed {schedule.seed}, schedule {schedule.digest}: {len(schedule.requests)} requests")
    ensure("vcsim", "govc", "toxiproxy")
    try:
        with interruptible():
            verdict = run(schedule, options.broken, options.idle)
    except KeyboardInterrupt:
        return 130
    show(console, schedule, verdict)
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
        for name, text in verdict.logs.items():
            (options.logs / name).write_text(text)
    return 1 if verdict.differences else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    drawn = secrets.randbelow(10_000)
    parser.add_argument("--seed", type=int, default=drawn, help="what the schedule is drawn from")
    parser.add_argument("--requests", type=int, default=500, help="how many are sent")
    parser.add_argument("--kills", type=int, help="kills from outside; in proportion to the requests")
    parser.add_argument("--break", dest="broken", choices=sorted(BREAKS), help="do without a mechanism")
    parser.add_argument(
        "--idle", type=float, default=IDLE_SECONDS, help="seconds until what stands still is stuck"
    )
    parser.add_argument("--logs", type=Path, help="keep the workers' logs in this folder")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
