"""What one machine's guest boots from, and what is wrong with it."""

import gzip
import json
import random
from base64 import b64decode
from typing import Any

import pytest

from vsphere_events.networks import Network
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.bootstrap.boot import Boot
from vsphere_functions.bootstrap.encode import LIMIT

SPEC: dict[str, Any] = {
    "computeCluster": "c",
    "datastore": "d",
    "templateVM": "t",
    "tags": {"mcm.gardener.cloud/cluster": "c", "mcm.gardener.cloud/role": "node"},
}
CARD = {"name": "blue", "addresses": ["10.0.0.5/24"]}
MAC = "00:50:56:00:00:01"


def _boot(user_data: str | None = None, **spec: Any) -> Boot:
    network = {} if "networks" in spec else {"network": "n"}
    return Boot.of("w1", "i-1", CreateSpec.parse(SPEC | network | spec), user_data)


def _unpacked(values: Any, name: str) -> str:
    assert values[f"guestinfo.{name}.encoding"] == "gzip+base64"
    return gzip.decompress(b64decode(values[f"guestinfo.{name}"])).decode()


def test_cloud_init_gets_metadata_and_user_data_with_the_machine_s_name() -> None:
    told = _boot("#!/bin/sh\nhostname <<MACHINE_NAME>>\n").guestinfo([])
    assert json.loads(_unpacked(told, "metadata")) == {"instance-id": "i-1", "local-hostname": "w1"}
    assert _unpacked(told, "userdata") == "#!/bin/sh\nhostname w1\n"


def test_cloud_init_gets_the_network_when_the_spec_describes_cards() -> None:
    boot = _boot(networks=[CARD])
    assert boot.cards == (Network.parse(CARD),)
    network = json.loads(_unpacked(boot.guestinfo([MAC]), "metadata"))["network"]
    assert network["ethernets"]["nic0"]["match"] == {"macaddress": MAC}
    with pytest.raises(ValueError, match="shorter"):
        boot.guestinfo([])


def test_ignition_gets_one_config() -> None:
    boot = _boot("x", networks=[CARD], bootstrap="ignition", sshKeys=["ssh-rsa A"])
    told = boot.guestinfo([MAC])
    assert told.keys() == {"guestinfo.ignition.config.data", "guestinfo.ignition.config.data.encoding"}
    config = json.loads(_unpacked(told, "ignition.config.data"))
    paths = [one["path"] for one in config["storage"]["files"]]
    assert "/etc/systemd/network/10-nic0.network" in paths
    assert config["passwd"]["users"][0]["sshAuthorizedKeys"] == ["ssh-rsa A"]
    assert boot.properties([MAC]) == told


def test_none_gives_nothing() -> None:
    boot = _boot(bootstrap="none")
    assert (boot.guestinfo([]), boot.properties([]), boot.wrong) == ({}, {}, [])


def test_the_generated_properties_are_those_of_cloud_init_s_ovf_datasource() -> None:
    told = _boot("#cloud-config\n", sshKeys=["ssh-rsa A", "ssh-rsa B"]).properties([])
    assert told.keys() == {"hostname", "instance-id", "public-keys", "user-data"}
    assert (told["hostname"], told["instance-id"]) == ("w1", "i-1")
    assert told["public-keys"] == "ssh-rsa A\nssh-rsa B"
    assert b64decode(told["user-data"]).decode().startswith("#cloud-config\nssh_authorized_keys: ")
    assert _boot().properties([]).keys() == {"hostname", "instance-id"}


def test_m55_a_property_is_compressed_when_that_helps() -> None:
    data = "#cloud-config\n" + "# the same\n" * 10000
    boot = _boot(data)
    told = boot.properties([])["user-data"]
    assert len(told) < LIMIT
    assert gzip.decompress(b64decode(told)).decode() == data
    assert boot.wrong == []


@pytest.mark.parametrize("way", ["cloud-init", "ignition"])
def test_m55_what_is_too_large_all_the_same_is_refused_with_its_sizes(way: str) -> None:
    noise = random.Random(7).randbytes(64 * 1024).hex()
    (wrong,) = _boot(noise, bootstrap=way).wrong
    assert wrong.field == "secrets.userData"
    assert f"the user data has {len(noise)}" in wrong.reason
    assert f"at most {LIMIT}" in wrong.reason


def test_all_that_is_wrong_comes_at_once() -> None:
    noise = random.Random(7).randbytes(64 * 1024).hex()
    wrong = _boot(noise, sshKeys=["ssh-rsa A"]).wrong
    assert [one.field for one in wrong] == ["providerSpec.sshKeys", "secrets.userData"]
    assert [one.field for one in _boot("x", bootstrap="none").wrong] == ["secrets.userData"]


def test_m57_user_data_shows_in_no_text_of_it() -> None:
    assert "swordfish" not in repr(_boot("swordfish"))
