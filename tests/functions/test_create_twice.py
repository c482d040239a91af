"""create_machine: of two clones of one machine one stays, and which one does not depend on who asks (M01, M04)."""

from uuid import uuid4

from pyVmomi import vim

from support.gateway import error_of
from support.machines import at, create, creation, end, eventually, info, status, vms
from support.soap import Soap
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.machine.create_machine import create_machine
from vsphere_functions.vsphere.clone import _age
from vsphere_functions.vsphere.ref import Ref

OURS = "/DC0/vm/demo/machines/worker-1"


class Lost:
    """A fence whose lease is taken by another while the clone runs."""

    def check(self) -> None:
        """Let everything pass: it was renewed in time."""

    def confirm(self) -> None:
        raise CallError(Code.ABORTED, "the lease is lost")


def test_m01_a_clone_that_vcenter_gave_another_identity_goes(vcenter: SimulatedVCenter) -> None:
    """A vCenter does that when the one asked for is taken (vSphere API, ConfigSpec.instanceUuid)."""
    before = vms(vcenter)
    with at(vcenter) as ctx, Soap(vcenter) as soap:
        began = create_machine(creation(), ctx)
        next(began)
        eventually(lambda: soap.find(OURS) is not None)
        soap.wait(soap.find(OURS).ReconfigVM_Task(vim.vm.ConfigSpec(instanceUuid=str(uuid4()))))
        assert error_of(end, began).code is Code.ABORTED
    assert vms(vcenter) == before


def test_m01_the_older_of_two_clones_is_the_one_of_the_lower_number() -> None:
    """`vm-99` is older than `vm-1000`, though not in the order of letters; it may be in service already."""
    ids = ["vm-1000", "vm-136", "vm-99", "vm-9"]
    assert sorted(ids, key=lambda one: _age(Ref("VirtualMachine", one))) == ids[::-1]


def test_m01_a_clone_that_another_call_has_begun_to_finish_stays(vcenter: SimulatedVCenter) -> None:
    """It is still powered off: its birth record alone says that somebody goes on with it."""
    with at(vcenter, fence=Lost()) as stopped, at(vcenter) as other:
        began = create_machine(creation(), stopped)
        state = next(began).state
        taking_over = create_machine(creation(state=state), other)
        while next(taking_over).message != "recorded what the machine was born with":
            pass
        taking_over.close()
        assert info(vcenter)["runtime"]["powerState"] == "poweredOff"
        assert error_of(end, began).code is Code.ABORTED
        assert vcenter.control.calls()["Destroy_Task"] == 0
        made = create(other)
        assert status(other).provider_id == made.provider_id
    assert vcenter.control.calls()["CloneVM_Task"] == 1
