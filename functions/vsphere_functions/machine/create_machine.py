"""Create a machine by cloning a template.

Promises: a request that comes again makes no second machine: it joins the clone that runs, or adopts the VM that
carries the owner's mark, and finishes it. A VM that is not ours, or that was made from another spec, is left alone
(AlreadyExists). Everything that is wrong with the data, and then with the names in it, is said at once, before
anything is cloned (InvalidArgument), and so is a volume that another VM has (FailedPrecondition, naming it). Volumes
are attached before the machine first runs; one that it has already is adopted, and none is ever formatted that holds
something.
Canceled, it leaves nothing: its clone is stopped or waited for, and the machine that it has made destroyed; one that
it only found, or that another request has gone on with, stays.
Source: CreateMachine of Gardener's machine contract; CloneVM_Task of the vSphere API.
"""

from vsphere_events.machine import CreateMachineRequest, CreateMachineResult
from vsphere_functions.bootstrap.boot import Boot
from vsphere_functions.context import Context
from vsphere_functions.steps import Steps
from vsphere_functions.vsphere.attributes import show_tags
from vsphere_functions.vsphere.birth import mark_ready, record_birth
from vsphere_functions.vsphere.clone import clone
from vsphere_functions.vsphere.find import find_own
from vsphere_functions.vsphere.guest_ip import guest_addresses, wait_for_ip
from vsphere_functions.vsphere.machine import Machine, named_in_errors, provider_id
from vsphere_functions.vsphere.machine_volumes import attach_volumes, mounting
from vsphere_functions.vsphere.place import find_place
from vsphere_functions.vsphere.power import power_on
from vsphere_functions.vsphere.undo import undo_machine
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted

FINISH = (record_birth, attach_volumes, show_tags, power_on, wait_for_ip, mark_ready)


def create_machine(request: CreateMachineRequest, ctx: Context) -> Steps[CreateMachineResult]:
    """Make the machine, or finish the one that an earlier delivery began."""
    want = wanted(request, ctx)
    vcenter = ctx.vcenter()
    machine = yield from find_own(vcenter, want)
    if machine is None:
        place = find_place(vcenter, want)
        want = want.mounting(place.volumes)
        machine = yield from clone(vcenter, want, place)
    else:
        want = mounting(vcenter, machine, want)
    return (yield from finish(vcenter, machine, want))


def undo_create_machine(request: CreateMachineRequest, ctx: Context) -> Steps[None]:
    """Remove the machine that a canceled request has made."""
    yield from undo_machine(ctx.vcenter(), Wanted.of(request, ctx.maker).finding_volumes_in(ctx.stores))


def wanted(request: CreateMachineRequest, ctx: Context) -> Wanted:
    """Return what the request wants, with the data that the guest boots from."""
    want = Wanted.of(request, ctx.maker).finding_volumes_in(ctx.stores)
    return want.booting_from(Boot.of(want.machine, want.instance_uuid, want.spec, ctx.user_data))


def finish(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[CreateMachineResult]:
    """Go through what is left to do; each step looks before it acts."""
    with named_in_errors(machine):
        for step in FINISH:
            yield from step(vcenter, machine, want)
    return CreateMachineResult(
        provider_id=provider_id(machine),
        node_name=want.machine,
        addresses=guest_addresses(vcenter, machine, want),
        last_known_state=str(want.state_at(vcenter, "ready", machine)),
    )
