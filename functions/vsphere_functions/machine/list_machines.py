"""List an owner's machines.

Promises: changes nothing. The list is whole or fails: a short one would get live machines taken for orphans and
deleted. A VM that cannot be read and may be the owner's makes it Unavailable; one elsewhere is reported as
unknown. Machines in creation are named in `creating`, VMs that carry a copied mark in `copies`; neither is listed.
A page is a slice, by providerID, of a fresh whole pass.
Source: ListMachines of Gardener's machine contract; ContainerView and PropertyCollector of the vSphere API.
"""

from vsphere_events.machine import ListMachinesRequest, ListMachinesResult
from vsphere_functions.context import Context
from vsphere_functions.vsphere.inventory import inventory
from vsphere_functions.vsphere.machine import node_name, provider_id


def list_machines(request: ListMachinesRequest, ctx: Context) -> ListMachinesResult:
    """Return the machines of the owner that the tags name, a page of them."""
    spec = request.provider_spec
    begun = ctx.unfinished.creating(str(spec.owner))
    found = inventory(ctx.vcenter(), spec, begun)
    names = {str(provider_id(machine)): node_name(machine) for machine in found.machines}
    ready = {node_name(machine) for machine in found.machines if machine.ready}
    half_built = {node_name(machine) for machine in found.machines if not machine.ready}
    after = [key for key in sorted(names) if key > (request.page_token or "")]
    page = after[: request.page_size]
    return ListMachinesResult(
        machine_list={key: names[key] for key in page},
        creating=tuple(sorted((begun - ready) | half_built)),
        copies=tuple(sorted(found.copies)),
        unknown=tuple(sorted(found.unknown)),
        next_page_token=page[-1] if len(page) < len(after) else None,
    )
