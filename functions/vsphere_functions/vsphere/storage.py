"""Where a storage pod wants a machine to lie."""

from collections.abc import Mapping
from typing import Any

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.faults import clean
from vsphere_functions.vsphere.place import Place
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.specs import storage_question
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted


def choose_datastore(vcenter: VCenter, want: Wanted, place: Place, extra: Mapping[str, str]) -> Ref:
    """Return the datastore of the spec, or the first that its storage pod recommends.

    ResourceExhausted, with vCenter's reason, when the pod recommends none.
    """
    if place.storage.type == "Datastore":
        return place.storage
    manager = vcenter.session.content["storageResourceManager"]
    spec = storage_question(want, place, extra)
    answer = vcenter.ask(manager, "RecommendDatastores", storageSpec=spec)
    for recommendation in answer.recommendations or []:
        for action in recommendation.action or []:
            destination = getattr(action, "destination", None)
            if destination is not None:
                return Ref("Datastore", destination._GetMoId())  # noqa: SLF001 - public there
    name = place.atlas.name(place.storage)
    raise CallError(
        Code.RESOURCE_EXHAUSTED, f"the datastore cluster {name} recommends no datastore{reason(answer)}"
    )


def reason(answer: Any) -> str:
    """Say why, as far as vCenter does (vSphere API, StoragePlacementResult.drsFault)."""
    faults = answer.drsFault
    if faults is None:
        return ""
    said = [fault.msg for vm in faults.faultsByVm or [] for fault in vm.fault or [] if fault.msg]
    return ": " + clean("; ".join(dict.fromkeys([faults.reason or "unnamed", *said])))
