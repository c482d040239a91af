"""JSON Schemas of the events, generated from the models: `python -m vsphere_events.schemas [--check]`."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vsphere_events.functions import FUNCTIONS
from vsphere_events.model import Model
from vsphere_events.outcome import Failure, Progress
from vsphere_events.subjects import Kind, event_type

FOLDER = Path(__file__).parents[1] / "schemas"

_TEXT = {"type": "string", "minLength": 1}
_OPTIONAL = {"type": ["string", "null"], "minLength": 1}


def schemas() -> dict[str, dict[str, Any]]:
    """Give every schema by file name: requests and successes per function, failed and progress for all."""
    made: dict[str, dict[str, Any]] = {}
    for name, function in FUNCTIONS.items():
        for kind, model in ((Kind.REQUEST, function.request), (Kind.SUCCEEDED, function.result)):
            made[f"{name}.{kind}.v1.json"] = _schema({"const": event_type(name, kind)}, model)
    for kind, model in ((Kind.FAILED, Failure), (Kind.PROGRESS, Progress)):
        types = {"enum": [event_type(name, kind) for name in FUNCTIONS]}
        made[f"{kind}.v1.json"] = _schema(types, model)
    return made


def schema_name(function: str, kind: Kind) -> str:
    """Name the schema of an event: the key in `schemas()` and the file."""
    return f"{kind}.v1.json" if kind in {Kind.FAILED, Kind.PROGRESS} else f"{function}.{kind}.v1.json"


def main(arguments: Sequence[str]) -> int:
    """Write the schemas; with `--check` compare them, 1 when a file is stale, missing or too many."""
    check = "--check" in arguments
    folder = next((Path(argument) for argument in arguments if not argument.startswith("-")), FOLDER)
    wanted = {name: json.dumps(schema, indent=2) + "\n" for name, schema in schemas().items()}
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.v1.json")}
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


def _schema(types: dict[str, Any], model: type[Model]) -> dict[str, Any]:
    """Describe an event in structured mode; its extensions are open, its data are not."""
    data = model.model_json_schema(by_alias=True)
    definitions = data.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "specversion": {"const": "1.0"},
            "id": _TEXT,
            "source": _TEXT | {"format": "uri-reference"},
            "type": types,
            "subject": _OPTIONAL,
            "time": _OPTIONAL | {"format": "date-time"},
            "datacontenttype": _OPTIONAL,
            "dataschema": _OPTIONAL | {"format": "uri"},
            "data": data,
        },
        "required": ["specversion", "id", "source", "type", "data"],
        "propertyNames": {"pattern": "^[a-z0-9]+$"},
        "additionalProperties": {"type": ["string", "integer", "boolean", "null"]},
        "$defs": definitions,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
