"""Name the vSphere volumes behind Kubernetes PV specs, for a drain that waits until they are detached.

Promises: no session is needed and nothing is looked up, so the answer is the same each time. Order is kept; what is
no vSphere volume is left out, never an error. Source: Gardener's machine contract, GetVolumeIDs.
"""

from collections.abc import Mapping
from typing import Any

from vsphere_events.volume import GetVolumeIdsRequest, GetVolumeIdsResult
from vsphere_functions.context import Context

_DRIVER = "csi.vsphere.vmware.com"


def get_volume_ids(request: GetVolumeIdsRequest, ctx: Context) -> GetVolumeIdsResult:
    """Return the path of each in-tree volume and the handle of each CSI volume of vSphere's driver."""
    del ctx
    return GetVolumeIdsResult(volume_ids=tuple(filter(None, map(_volume_id, request.pv_spec_list))))


def _volume_id(spec: Mapping[str, Any] | None) -> str | None:
    in_tree, csi = (_object(spec, name) for name in ("vsphereVolume", "csi"))
    found = in_tree.get("volumePath") or (csi.get("volumeHandle") if csi.get("driver") == _DRIVER else None)
    return found if isinstance(found, str) else None


def _object(spec: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    value = (spec or {}).get(name)
    return value if isinstance(value, dict) else {}
