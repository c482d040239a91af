"""Storage policies, by the names that people give them."""

from pyVmomi import pbm

from vsphere_events.error import Detail
from vsphere_events.model import problems
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.vcenter import VCenter

_SERVICE = Ref("PbmServiceInstance", "ServiceInstance")


def find_policy(vcenter: VCenter, name: str) -> str:
    """Return the id of a storage policy; InvalidArgument, naming those there are, when none has the name.

    Source: PbmQueryProfile and PbmRetrieveContent of the Storage Policy API, which takes the privilege
    StorageProfile.View.
    """
    content = vcenter.ask(_SERVICE, "PbmRetrieveServiceContent")
    manager = Ref("PbmProfileProfileManager", content.profileManager._GetMoId())  # noqa: SLF001 - public there
    ids = vcenter.ask(
        manager,
        "PbmQueryProfile",
        resourceType=pbm.profile.ResourceType(resourceType="STORAGE"),
        profileCategory="REQUIREMENT",  # what a disk asks for; others say what storage offers
    )
    policies = vcenter.ask(manager, "PbmRetrieveContent", profileIds=ids) if ids else []
    known: dict[str, str] = {policy.name: policy.profileId.uniqueId for policy in policies}
    if name not in known:
        reason = f"there is no storage policy {name!r}"
        raise problems((Detail(reason, "storagePolicy", tuple(sorted(known))),))
    return known[name]
