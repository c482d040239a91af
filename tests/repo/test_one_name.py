"""A function has one name everywhere; each test says what is missing and where."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest

from events.requests import MINIMAL
from support.answering import RESULTS
from vsphere_events import schemas
from vsphere_events.client import Client, SyncClient
from vsphere_events.functions import FUNCTIONS
from vsphere_events.subjects import Kind, event_type, parse_event_type, request_subject
from vsphere_functions.local.examples import EXAMPLES
from vsphere_functions.runtime.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "functions" / "vsphere_functions"
CONTRACT = """
    create_machine delete_machine initialize_machine get_machine_status list_machines shut_down_machine
    get_volume_ids create_volume get_volume destroy_volume list_volumes attach_volume detach_volume resize_volume
    copy_volume find_orphans cancel_request validate_machine
"""


def files() -> dict[str, Path]:
    """The function files by name."""
    return {
        file.stem: file
        for noun in ("machine", "volume", "request")
        for file in (PACKAGE / noun).glob("*.py")
        if file.stem != "__init__"
    }


PLACES = {
    "CONTRACT in tests/repo/test_one_name.py": CONTRACT.split(),
    "events/vsphere_events/client/client.py": vars(Client),
    "events/vsphere_events/client/sync.py": vars(SyncClient),
    "functions/vsphere_functions/local/examples.py": EXAMPLES,
    "RESULTS in tests/support/answering.py": RESULTS,
    "MINIMAL in tests/events/requests.py": MINIMAL,
}


@pytest.mark.parametrize("place", PLACES)
def test_no_place_lacks_a_function(place: str) -> None:
    missing = [name for name in FUNCTIONS if name not in PLACES[place]]
    assert not missing, f"add {', '.join(missing)} to {place}"


def test_the_contract_has_all_its_functions() -> None:
    assert list(FUNCTIONS) == CONTRACT.split(), "keep FUNCTIONS and CONTRACT alike, in one order"


def test_every_function_file_is_in_the_catalogue_and_the_other_way_round() -> None:
    assert CATALOGUE.keys() == files().keys(), (
        "a function file without a row in runtime/catalogue.py, or the reverse"
    )
    assert CATALOGUE.keys() <= FUNCTIONS.keys(), "a function that the contract does not know"


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_function_is_the_one_of_its_file(name: str) -> None:
    function, file = CATALOGUE[name], files()[name]
    assert function.__name__ == name
    assert Path(inspect.getfile(function)) == file
    parameters = list(inspect.signature(function).parameters)
    assert parameters == ["request", "ctx"]


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_function_takes_and_gives_its_models(name: str) -> None:
    annotations = inspect.get_annotations(CATALOGUE[name], eval_str=True)
    assert annotations["request"] is FUNCTIONS[name].request
    result = FUNCTIONS[name].result
    gives = annotations["return"]
    assert gives is result or result in gives.__args__, f"{name} gives {gives}"
    assert (gives is not result) == FUNCTIONS[name].changes, (
        "one that changes something is a generator of steps"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_models_event_types_subjects_and_schemas_carry_the_name(name: str) -> None:
    words = name.title().replace("_", "")
    assert FUNCTIONS[name].name == name
    assert FUNCTIONS[name].request.__name__ == f"{words}Request"
    assert FUNCTIONS[name].result.__name__ == f"{words}Result"
    assert parse_event_type(event_type(name, Kind.REQUEST)) == (name, Kind.REQUEST)
    assert request_subject("default", name).endswith(f".{name}")
    assert (ROOT / "events" / "schemas" / schemas.schema_name(name, Kind.REQUEST)).is_file()


def test_every_function_is_a_target_of_functions_framework() -> None:
    spec = importlib.util.spec_from_file_location("targets", ROOT / "functions" / "main.py")
    assert spec is not None
    assert spec.loader is not None
    main = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(main)
    targets = {name for name, value in vars(main).items() if inspect.iscoroutinefunction(value)}
    assert targets == {*FUNCTIONS, "router"}
    assert all(getattr(main, name).__name__ == name for name in targets)


def test_every_function_has_an_example_that_is_valid() -> None:
    assert EXAMPLES.keys() == FUNCTIONS.keys()
    for name, data in EXAMPLES.items():
        FUNCTIONS[name].request.parse(data)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_built_function_has_tests_of_its_own(name: str) -> None:
    folder = ROOT / "tests" / "functions"
    assert list(folder.glob(f"test_{name}*.py")), f"tests/functions/test_{name}.py is missing"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_documents_name_every_function(name: str) -> None:
    assert f"## {name}\n" in (ROOT / "docs" / "reference" / "functions.md").read_text()
    assert f"[`{name}`]" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_changelog_names_every_built_function(name: str) -> None:
    assert f"`{name}`" in (ROOT / "CHANGELOG.md").read_text()
