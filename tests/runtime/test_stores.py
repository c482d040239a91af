"""From the settings' stores to those of a request."""

from pathlib import Path

import pytest

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.runtime.settings import Settings, SettingsError
from vsphere_functions.runtime.settings_load import load
from vsphere_functions.runtime.stores import stores_of
from vsphere_functions.vsphere.files import DatastorePath

UUID = "0f5a6f0e-8a62-4c8a-9f0e-3d1d5c4b2a10"
LOGIN = 'user = "u"\npassword = "p"\n'
TEXT = f"""
[vcenters.one]
url = "https://vc.example/sdk"
{LOGIN}
[vcenters.alias]
url = "https://VC.example:443/sdk"
{LOGIN}
[vcenters.two]
url = "https://other.example/sdk"
{LOGIN}
[stores.default]
vcenter = "one"
datacenter = "DC0"
path = "[ds (1)] /a//b/"
installation = "{UUID}"
largest_kb = 4096
[stores.beside]
vcenter = "alias"
datacenter = "DC0"
path = "[ds (1)]"
installation = "{UUID}"
[stores.far]
vcenter = "two"
datacenter = "DC0"
path = "[ds] x"
installation = "{UUID}"
"""


def settings(tmp_path: Path, text: str = TEXT) -> Settings:
    (tmp_path / "settings.toml").write_text(text)
    return load(tmp_path / "settings.toml", environ={})


def test_a_request_has_the_stores_of_its_label_and_sees_those_of_its_vcenter(tmp_path: Path) -> None:
    stores = stores_of(settings(tmp_path), "one", "vc.example:443")
    assert [one.name for one in stores.own] == ["default"]
    assert {one.name for one in stores.configs} == {"default", "beside"}
    found = stores.named("default")
    assert found.folder == DatastorePath("ds (1)", ("a", "b", "VIC", UUID, "volumes"))
    assert (found.default_kb, found.largest_kb, found.total_kb, found.volumes) == (1 << 20, 4096, None, None)
    assert stores_of(settings(tmp_path), "alias", "vc.example:443").named("beside").folder.parts[0] == "VIC"
    for name in ("far", "beside", "none"):
        with pytest.raises(CallError) as caught:
            stores.named(name)
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert caught.value.details[0].candidates == ("default",)


def test_a_login_at_another_host_leads_to_no_store(tmp_path: Path) -> None:
    assert stores_of(settings(tmp_path), "one", "elsewhere.example:443").own == []


@pytest.mark.parametrize("path", ["a/b", "[ds", "[ds] ../a", "[] a"])
def test_a_path_that_is_none_is_refused_at_the_start(tmp_path: Path, path: str) -> None:
    with pytest.raises(SettingsError, match=r"stores\.far\.path"):
        settings(tmp_path, TEXT.replace("[ds] x", path))
