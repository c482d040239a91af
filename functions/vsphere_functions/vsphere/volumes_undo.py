"""Take back what a request has made of a volume and not finished: what stands under its claim."""

from vsphere_events.volume import VolumeKey
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere import claims_file
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.follow import awaited, stop
from vsphere_functions.vsphere.in_use import WHERE
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.state import State
from vsphere_functions.vsphere.stores import Stores, look_around
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.volumes import Leaf, find_leaf
from vsphere_functions.vsphere.volumes_destroy import remove_disk, remove_files


def undo_volume(vcenter: VCenter, stores: Stores, key: VolumeKey, operation: str) -> Steps[None]:
    """Sweep what a canceled request has made, once its copy, if one runs, is stopped or has ended."""
    store = look_around(vcenter, stores, WHERE).store(key.store)
    claim = _claim_in(find_leaf(store, key.id), operation)
    known = claim and claim.task_at(vcenter.session.instance_uuid)
    if known:
        task = Ref("Task", known)
        stop(vcenter, task)
        state = State.of(None, vcenter.session.instance_uuid, str(key)).at("undo")
        yield from awaited(vcenter, "undo", task, state, "waiting for the copy to end")
    yield from sweep(vcenter, stores, find_leaf(store, key.id), operation)


def sweep(vcenter: VCenter, stores: Stores, leaf: Leaf | None, operation: str) -> Steps[None]:
    """Empty a volume's folder that is not whole and that this operation has claimed, or that holds nothing.

    A disk that lay there before the claim stays.
    """
    claim = _claim_in(leaf, operation)
    if leaf is None or leaf.has_metadata or not (claim or leaf.bare):
        return
    state = State.of(None, vcenter.session.instance_uuid, f"{leaf.store.name}/{leaf.id}")
    if claim and claim.found:
        for name in (*leaf.temporaries, claims_file.FILE):
            yield from leaf.store.files.delete(leaf.path / name, state)
        return
    yield from remove_disk(vcenter, stores, leaf, state)
    yield from remove_files(leaf, state)


def _claim_in(leaf: Leaf | None, operation: str) -> Claim | None:
    claim = leaf.claim() if leaf else None
    return claim if claim and claim.operation == operation else None
