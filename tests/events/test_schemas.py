"""The generated schemas and the models agree with each other, and with golden events."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from support.described import SCHEMAS
from vsphere_events import schemas as module
from vsphere_events.envelope import Mode, Received, from_nats
from vsphere_events.functions import FUNCTIONS
from vsphere_events.model import Model
from vsphere_events.outcome import Failure, Progress
from vsphere_events.schemas import FOLDER, main, schema_name
from vsphere_events.subjects import Kind, parse_event_type

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


def _model(function: str, kind: Kind) -> type[Model]:
    made = FUNCTIONS[function]
    models: dict[Kind, type[Model]] = {
        Kind.REQUEST: made.request,
        Kind.SUCCEEDED: made.result,
        Kind.FAILED: Failure,
        Kind.PROGRESS: Progress,
    }
    return models[kind]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_golden_event_fits_its_schema_and_its_model(path: Path) -> None:
    received = from_nats(None, path.read_bytes())
    assert isinstance(received, Received)
    assert received.mode is Mode.STRUCTURED
    function, kind = parse_event_type(received.event.type)
    Draft202012Validator(SCHEMAS[schema_name(function, kind)]).validate(json.loads(path.read_bytes()))
    model = _model(function, kind).parse(received.event.data)
    if kind is not Kind.REQUEST:
        assert _without_nulls(model.wire()) == _without_nulls(received.event.data)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_schema_refuses_an_unknown_field_a_wrong_type_and_a_nested_extension(path: Path) -> None:
    event = json.loads(path.read_bytes())
    function, kind = parse_event_type(event["type"])
    validator = Draft202012Validator(SCHEMAS[schema_name(function, kind)])
    assert not validator.is_valid(event | {"data": event["data"] | {"bogus": 1}})
    assert not validator.is_valid(event | {"type": "io.vspherefunctions.fly.request.v1"})
    assert not validator.is_valid(event | {"ext": {}})
    assert not validator.is_valid(event | {"Ext": "x"})


def test_every_schema_is_a_schema() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert len(SCHEMAS) == 2 * len(FUNCTIONS) + 2


def test_the_schemas_in_the_repository_are_fresh() -> None:
    assert main(["--check"]) == 0
    assert {path.name for path in FOLDER.iterdir()} == {*SCHEMAS, "asyncapi.json"}


def test_a_stale_a_missing_and_a_needless_schema_are_named_and_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "new")]) == 0
    folder = tmp_path / "new"
    assert main(["--check", str(folder)]) == 0
    (folder / "progress.v1.json").write_text("{}")
    (folder / "failed.v1.json").unlink()
    (folder / "fly.request.v1.json").write_text("{}")
    assert main([str(folder), "--check"]) == 1
    said = capsys.readouterr().err
    assert [line.split(";")[0] for line in said.splitlines()] == [
        "stale: failed.v1.json",
        "stale: fly.request.v1.json",
        "stale: progress.v1.json",
    ]
    assert main([str(folder)]) == 0
    assert main(["--check", str(folder)]) == 0


def test_the_schemas_are_the_same_each_time() -> None:
    assert json.dumps(module.schemas()) == json.dumps(SCHEMAS)
