"""The files of `events/schemas`, generated from the models: `python -m vsphere_events.schemas [--check]`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vsphere_events import asyncapi
from vsphere_events.event_schemas import schema_name, schemas

__all__ = ["FOLDER", "files", "main", "schema_name", "schemas"]

FOLDER = Path(__file__).parents[1] / "schemas"


def files() -> dict[str, dict[str, Any]]:
    """Give the content of every file by its name."""
    return schemas() | {asyncapi.FILE: asyncapi.document()}


def main(arguments: Sequence[str]) -> int:
    """Write the files; with `--check` compare them, 1 when one is stale, missing or too many."""
    check = "--check" in arguments
    folder = next((Path(argument) for argument in arguments if not argument.startswith("-")), FOLDER)
    wanted = {name: json.dumps(content, indent=2) + "\n" for name, content in files().items()}
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if check:
        for name in stale:
            sys.stderr.write(f"stale: {name}; run python -m vsphere_events.schemas\n")
        return 1 if stale else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (folder / name).write_text(wanted[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
