"""get_volume_ids: the volumes behind PV specs, without a session."""

import json
from typing import Any

import pytest

from vsphere_events.volume import GetVolumeIdsRequest
from vsphere_functions.context import Context
from vsphere_functions.volume.get_volume_ids import get_volume_ids
from vsphere_functions.vsphere.sessions import Sessions

IN_TREE = {"vsphereVolume": {"volumePath": "[ds 1] kubevols/a.vmdk"}}
CSI = {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "b5c9"}}
FOREIGN: list[Any] = [
    {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}},
    {"vsphereVolume": {"volumePath": ""}},
    {"csi": {"driver": "csi.vsphere.vmware.com"}},
    {"csi": None, "vsphereVolume": "?"},
    {"nfs": {"path": "/x"}},
    {},
    None,
]


def ids_of(specs: Any) -> tuple[str, ...]:
    context = Context("default", Sessions({}))  # no vCenter: asking for one would fail
    return get_volume_ids(GetVolumeIdsRequest.parse({"pvSpecList": specs}), context).volume_ids


def test_volumes_come_in_the_order_of_their_specs() -> None:
    assert ids_of([CSI, IN_TREE]) == ("b5c9", "[ds 1] kubevols/a.vmdk")


@pytest.mark.parametrize("spec", FOREIGN)
def test_what_is_no_vsphere_volume_is_left_out(spec: Any) -> None:
    assert ids_of([spec, CSI]) == ("b5c9",)


def test_the_seeds_blob_is_read_like_the_list() -> None:
    assert ids_of(json.dumps([CSI, IN_TREE])) == ids_of([CSI, IN_TREE])


def test_no_specs_have_no_volumes() -> None:
    assert ids_of([]) == ()
