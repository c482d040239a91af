"""The table of functions follows one rule for all names."""

import pytest
from pydantic import SecretStr

from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.model import Model, Result

READ_ONLY = {
    "get_machine_status",
    "list_machines",
    "get_volume",
    "list_volumes",
    "get_volume_ids",
    "validate_machine",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_models_are_named_after_their_function(name: str) -> None:
    function = FUNCTIONS[name]
    camel = "".join(word.capitalize() for word in name.split("_"))
    assert function.name == name
    assert (function.request.__name__, function.result.__name__) == (f"{camel}Request", f"{camel}Result")
    assert function.request.__module__ == function.result.__module__
    assert issubclass(function.request, Model)
    assert issubclass(function.result, Result)


def test_all_functions_are_there_and_only_the_looking_ones_change_nothing() -> None:
    assert len(FUNCTIONS) == 18
    assert {name for name, function in FUNCTIONS.items() if not function.changes} == READ_ONLY


def _models(model: type[Model]) -> set[type[Model]]:
    return {model}.union(*(_models(sub) for sub in model.__subclasses__()))


def test_every_model_is_frozen_and_refuses_unknown_fields_and_hides_inputs() -> None:
    for model in _models(Model):
        assert model.model_config.get("frozen")
        assert model.model_config.get("extra") == "forbid"
        assert model.model_config.get("hide_input_in_errors")


@pytest.mark.parametrize("data", [None, [], "{}", 7, b"bytes"])
def test_data_that_are_no_object_are_refused(data: object) -> None:
    event = CloudEvent(id="1", source="/p", type="t", data=data)
    with pytest.raises(CallError) as caught:
        FUNCTIONS["create_machine"].parse(event)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_an_event_without_data_is_refused_and_one_with_data_is_read() -> None:
    with pytest.raises(CallError, match="it is nothing"):
        FUNCTIONS["get_volume"].parse(CloudEvent(id="1", source="/p", type="t"))
    event = CloudEvent(id="1", source="/p", type="t", data={"id": "a", "secrets": {"userData": "x"}})
    request = FUNCTIONS["get_volume"].parse(event)
    assert isinstance(request, FUNCTIONS["get_volume"].request)
    assert request.model_dump()["secrets"]["user_data"] == SecretStr("x")
