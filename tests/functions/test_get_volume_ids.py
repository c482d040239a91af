"""The ids of vSphere volumes behind PV specs."""

import json
from typing import Any

import pytest

from vsphere_events.volume import GetVolumeIdsRequest
from vsphere_functions.runtime.catalogue import CATALOGUE

SPECS: list[Any] = [
    {"vsphereVolume": {"volumePath": "[ds] kubevols/x.vmdk", "fsType": "ext4"}},
    {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": "4e5d9b0c-0a1b"}},
    {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}},
    {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": ""}},
    {"csi": {"driver": "csi.vsphere.vmware.com"}},
    {"csi": {"driver": "csi.vsphere.vmware.com", "volumeHandle": 7}},
    {"csi": "odd", "vsphereVolume": []},
    {"nfs": {"path": "/"}},
    {},
    None,
]


@pytest.mark.parametrize("given", [SPECS, json.dumps(SPECS)], ids=["list", "text"])
def test_vsphere_volumes_are_named_in_order_and_all_others_left_out(given: Any) -> None:
    """V30."""
    request = GetVolumeIdsRequest.parse({"pvSpecList": given})
    result = CATALOGUE["get_volume_ids"](request, None)
    assert result.volume_ids == ("[ds] kubevols/x.vmdk", "4e5d9b0c-0a1b")
