"""Find VMs of an owner that are none of `machines`, and leftovers of volumes; delete only what an answer named.

Promises: a machine is an orphan when it carries the owner's mark, no request is making it, it is none of `machines`, by
name or by the given providerID, and it is older than `minAgeSeconds`; one without a known age is not old. Of volumes,
which have no owner, these are: creates and destroys in the stores of this vCenter that an hour ago had begun and not
ended. No whole volume is one, nor a disk that was found there. As with list_machines the look is whole or fails;
`copies` and `unknown` are never deleted.

`delete` takes ids that an earlier answer gave. Each is looked at again, with its machine or volume held: it has to be
an orphan still, and the same incarnation. It goes the way that delete_machine and destroy_volume go: what a machine was
not born with is detached and reported. FailedPrecondition, with nothing deleted, when `machines` is empty, when more
than half of the owner's machines would go, or when a later request has created one of them anew. One that cannot be
deleted stays among the orphans, with the reason. What is gone already is among the deleted, so a request that was
interrupted tells all of it.
Source: the orphan collection of Gardener's machine controller; Destroy_Task of the vSphere API.
"""

from collections import defaultdict
from datetime import timedelta

from vsphere_events.machine import DetachedVolume
from vsphere_events.orphan import OrphanVolume
from vsphere_events.provider_id import ProviderID
from vsphere_events.request import FindOrphansRequest, FindOrphansResult, Orphan
from vsphere_events.volume import VolumeKey
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.destroy import detached
from vsphere_functions.vsphere.inventory import inventory
from vsphere_functions.vsphere.orphans import Found, machine_orphans, remains, shelves_of, volume_orphans
from vsphere_functions.vsphere.orphans_swept import Sweep, is_gone, refuse_many
from vsphere_functions.vsphere.state import State

_SHOWN = 1000
"""Orphans in one answer, so that it fits into a message."""


def find_orphans(request: FindOrphansRequest, ctx: Context) -> Steps[FindOrphansResult]:
    """Say what is left over, and delete of it what the request names."""
    for one in request.delete:
        if isinstance(one, OrphanVolume):
            ctx.stores.named(one.store)
    vcenter, owner = ctx.vcenter(), str(request.provider_spec.owner)
    making, now = ctx.unfinished.creating(owner), ctx.clock()
    found, shelves = inventory(vcenter, request.provider_spec, making), shelves_of(vcenter, ctx.stores)
    orphans = [
        *machine_orphans(vcenter, found, _known(request), making, now),
        *volume_orphans(shelves.leaves.values(), now),
    ]
    old = [one for one in orphans if one.is_old(timedelta(seconds=request.min_age_seconds))]
    doomed = [one for one in old if one.id in request.delete]
    doomed += remains({*request.delete} - {one.id for one in doomed}, shelves)
    refuse_many(doomed, len(found.machines), known=bool(request.machines))
    gone = {one for one in request.delete if is_gone(vcenter, one, shelves)}
    state = State.of(request.last_known_state, vcenter.session.instance_uuid, owner)
    sweep = Sweep(vcenter, ctx.stores, owner, state, gone)
    left = yield from sweep.run(doomed)
    rest = sorted([*left, *(one for one in old if one not in doomed)], key=_age, reverse=True)
    return FindOrphansResult(
        orphans=tuple(_shown(one, ctx.label) for one in rest[:_SHOWN]),
        more=max(len(rest) - _SHOWN, 0),
        deleted=tuple(str(one) for one in request.delete if one in sweep.gone),
        detached_volumes=tuple(map(DetachedVolume.model_validate, detached(sweep.state.detached))),
        copies=tuple(sorted(found.copies)),
        unknown=(*sorted(found.unknown), *(f"store {name}" for name in shelves.unreachable)),
    )


def _known(request: FindOrphansRequest) -> dict[str, list[ProviderID | None]]:
    known = defaultdict(list)
    for one in request.machines:
        known[one.machine_name].append(one.provider_id)
    return known


def _age(orphan: Found) -> timedelta:
    return orphan.age or timedelta.min


def _shown(orphan: Found, vcenter: str) -> Orphan:
    told = Orphan(
        id=str(orphan.id),
        reason=orphan.reason,
        age_seconds=None if orphan.age is None else int(orphan.age.total_seconds()),
    )
    if isinstance(orphan.id, OrphanVolume):
        link = VolumeKey(orphan.id.store, orphan.id.id).link(vcenter)
        return told.model_copy(update={"self_link": link})
    more = {"machine_name": orphan.id.machine, "provider_id": orphan.provider_id}
    return told.model_copy(update=more)
