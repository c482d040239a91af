"""ProviderID: both forms, any case, never empty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import CreateMachineResult, DeleteMachineRequest
from vsphere_events.provider_id import ProviderID

UUID = "422e4956-ad22-1139-6d72-59cc8f26bc90"


@given(st.uuids(), st.none() | st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True), st.booleans())
def test_what_is_rendered_is_read_again_in_any_case(uuid: object, region: str | None, upper: bool) -> None:
    made = ProviderID(str(uuid).upper() if upper else str(uuid), region)
    assert ProviderID.parse(str(made)) == made
    assert str(made).endswith(f"/{uuid}")
    shouted = ProviderID.parse(str(made).upper())
    assert shouted.uuid == made.uuid
    assert (shouted.region or "").lower() == (region or "").lower()


def test_the_two_forms() -> None:
    assert str(ProviderID(UUID, "eu-1")) == f"vsphere://eu-1/{UUID}"
    assert str(ProviderID(UUID)) == str(ProviderID(UUID, "")) == f"vsphere://{UUID}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vsphere://",
        "vsphere:///",
        "vsphere://eu-1",
        "vsphere://eu-1/",
        f"vsphere:///{UUID}",
        f"vsphere://eu-1/{UUID}/",
        f"vsphere://a/b/{UUID}",
        f"vsphere://a b/{UUID}",
        f"vsphere://a\x01/{UUID}",
        f"aws://eu-1/{UUID}",
        UUID,
        f" vsphere://{UUID}",
        f"vsphere://{UUID}\n",
        f"vsphere://{UUID[:-1]}",
        f"vsphere://{UUID[:-1]}g",
        f"vsphere://{UUID.replace('-', '')}",
        "worker-1",
    ],
)
def test_a_malformed_one_is_refused(text: str) -> None:
    """M30."""
    with pytest.raises(CallError) as caught:
        ProviderID.parse(text)
    assert caught.value.code is Code.INVALID_ARGUMENT
    request = {"machineName": "a", "providerID": text, "providerSpec": {"tags": {}}}
    with pytest.raises(CallError) as refused:
        DeleteMachineRequest.parse(request)
    assert "providerID" in {detail.field for detail in refused.value.details}


@pytest.mark.parametrize("given", ["", "eu-1", 7, None])
def test_an_empty_uuid_never_leaves(given: object) -> None:
    with pytest.raises(CallError):
        ProviderID(str(given or ""))
    with pytest.raises(ValueError, match="provider"):
        CreateMachineResult(provider_id=given, node_name="n")


def test_a_result_takes_the_value_or_its_text() -> None:
    for one in (ProviderID(UUID, "r"), f"VSPHERE://r/{UUID.upper()}"):
        assert (
            CreateMachineResult(provider_id=one, node_name="n").wire()["providerID"] == f"vsphere://r/{UUID}"
        )
