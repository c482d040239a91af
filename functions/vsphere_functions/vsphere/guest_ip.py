"""Wait, when a spec asks for it, until the guest has an address."""

import time

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_events.machine import Address
from vsphere_functions.steps import Step, Steps
from vsphere_functions.vsphere.machine import Machine, addresses
from vsphere_functions.vsphere.vcenter import VCenter
from vsphere_functions.vsphere.wanted import Wanted

_PAUSE = 1.0
"""Seconds between two looks."""


def wait_for_ip(vcenter: VCenter, machine: Machine, want: Wanted) -> Steps[None]:
    """Wait for the first address, a bounded time in each try; DeadlineExceeded then, and the next try waits on."""
    if not want.spec.wait_for_ip or machine.ready:
        return
    state = want.state_at(vcenter, "wait_for_ip", machine)
    until = time.monotonic() + want.spec.wait_for_ip_seconds
    while not guest_addresses(vcenter, machine, want):
        if time.monotonic() >= until:
            raise CallError(
                Code.DEADLINE_EXCEEDED,
                f"the guest of {machine.name!r} has no address after {want.spec.wait_for_ip_seconds} s",
                last_known_state=str(state),
            )
        yield Step("wait_for_ip", str(state), "waiting for an address of the guest")
        time.sleep(_PAUSE)
    yield Step("wait_for_ip", str(state), "the guest has an address")


def guest_addresses(vcenter: VCenter, machine: Machine, want: Wanted) -> tuple[Address, ...]:
    """Return the guest's addresses as the machine was read, or, when they are waited for, as they are now."""
    if not want.spec.wait_for_ip:
        return addresses(machine)
    rows = vcenter.read([machine.ref], {"VirtualMachine": ["guest.net"]})
    return addresses(Machine(machine.ref, rows.get(machine.ref, {})))
