"""What one machine's guest boots from, and what is wrong with it."""

import gzip
import json
import random
from base64 import b64decode
from dataclasses import replace
from email import message_from_string
from typing import Any

import pytest

from vsphere_events.machine_volume import MachineVolume
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


UUIDS = ["60 00 C2 93 7b a0 3a 03-9f 22 56 c5 29 93 b7 27", "6000c2937ba03a039f2256c52993b728"]
VOLUMES = [{"id": "data-1", "mountPath": "/data"}, {"id": "raw"}]


def _with_volumes(user_data: str | None = None, **spec: Any) -> Boot:
    boot = _boot(user_data, **spec)
    return replace(boot, volumes=tuple(map(MachineVolume.parse, VOLUMES)))


def test_cloud_init_hears_of_volumes_as_vendor_data_and_the_user_data_stays() -> None:
    data = "MIME-Version: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n"
    told = _with_volumes(data).mounting(UUIDS).guestinfo([])
    assert _unpacked(told, "userdata") == data
    hook = _unpacked(told, "vendordata")
    assert hook.startswith("#cloud-boothook\n#!/bin/sh\n")
    assert "Where=/data" in hook
    assert "wwn-0x6000c2937ba03a039f2256c52993b727" in hook
    assert "b728" not in hook, "a volume without a path is the guest's own affair"


def test_without_a_volume_to_mount_there_is_no_vendor_data() -> None:
    told = replace(_boot(), volumes=(MachineVolume.parse({"id": "raw"}),)).mounting(UUIDS[:1])
    assert told.guestinfo([]) == _boot().guestinfo([])
    assert told.properties([]) == _boot().properties([])


def test_the_ovf_datasource_hears_of_volumes_beside_the_user_data() -> None:
    boot = _with_volumes("#!/bin/sh\n", sshKeys=["ssh-rsa A"]).mounting(UUIDS)
    said = b64decode(boot.properties([])["user-data"]).decode()
    _, hook, theirs = message_from_string(said).walk()
    assert hook.get_content_type() == "text/cloud-boothook"
    assert "Where=/data" in str(hook.get_payload())
    assert str(theirs.get_payload()).startswith("#cloud-config-archive\n"), "with the keys"


def test_ignition_gets_the_units_and_the_script() -> None:
    boot = _with_volumes(bootstrap="ignition").mounting(UUIDS)
    config = json.loads(_unpacked(boot.guestinfo([]), "ignition.config.data"))
    assert [one["name"] for one in config["systemd"]["units"]] == [
        "format-volume-6000c2937ba03a039f2256c52993b727.service",
        "data.mount",
    ]


@pytest.mark.parametrize("way", ["cloud-init", "ignition"])
def test_the_size_of_what_is_told_of_volumes_counts_before_their_disks_are_known(way: str) -> None:
    volumes = [MachineVolume.parse({"id": f"v{at}", "mountPath": f"/v/{at}" + "x" * 200}) for at in range(59)]
    boot = replace(_boot(bootstrap=way), volumes=tuple(volumes))
    assert boot.wrong == [], "as many as there can be fit"
    known = boot.mounting([f"{at:032x}" for at in range(59)])
    assert boot._sizes([]).keys() == known._sizes([]).keys()
    noise = replace(boot, user_data=random.Random(7).randbytes(64 * 1024).hex())
    assert {one.field for one in noise.wrong} == {"secrets.userData"}


def test_nothing_is_told_of_volumes_whose_disks_are_not_known() -> None:
    for call in (_with_volumes().guestinfo, _with_volumes().properties):
        with pytest.raises(ValueError, match="shorter"):
            call([])
