"""A machine and a volume that are brought together and parted, on a vCenter that tests share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyVmomi import vim

from support import machines
from support.soap import Soap
from support.volumes import INSTALLATION, create, with_stores
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter

FOLDER = "/DC0/vm/demo/machines"
_NUMBERS = count(1)


@dataclass(frozen=True, slots=True)
class Scene:
    """A context, the machine worker-1 in it, and a volume of the test's own."""

    ctx: Context
    vcenter: SimulatedVCenter
    soap: Soap
    volume: str

    @property
    def folder(self) -> str:
        """The volume's folder."""
        return f"[we ird (1)] vols/VIC/{INSTALLATION}/volumes/{self.volume}"

    @property
    def disk(self) -> str:
        """The volume's disk."""
        return f"{self.folder}/{self.volume}.vmdk"

    @property
    def link(self) -> str:
        """The volume's selfLink."""
        return f"vsphere-volume://default/default/{self.volume}"

    def machine(self, name: str = "worker-1") -> Any:
        """A VM."""
        return self.soap.find(f"{FOLDER}/{name}")

    def paths(self, name: str = "worker-1") -> list[str]:
        """The files of a machine's disks."""
        return [disk.backing.fileName for disk in self.soap.disks(self.machine(name))]

    def modes(self, name: str = "worker-1") -> dict[str, str]:
        """The files of a machine's disks, and how it has them."""
        disks = self.soap.disks(self.machine(name))
        return {disk.backing.fileName: disk.backing.diskMode for disk in disks}

    def reconfigured(self) -> bool:
        """Whether anything was reconfigured since the calls were last counted."""
        return self.vcenter.control.calls()["ReconfigVM_Task"] > 0

    def plain_disk(self) -> str:
        """A disk that lies in no store."""
        self.soap.make_folder(f"[LocalDS_0] plain-{self.volume}")
        path = f"[LocalDS_0] plain-{self.volume}/plain.vmdk"
        self.soap.create_disk(path)
        return path


@contextmanager
def scenes(vcenter: SimulatedVCenter) -> Iterator[Scene]:
    """The stage: a context with the machine worker-1."""
    with with_stores(vcenter) as ctx, Soap(vcenter) as soap:
        machines.create(ctx)
        yield Scene(ctx, vcenter, soap, "")


@contextmanager
def scene(stage: Scene) -> Iterator[Scene]:
    """A volume of its own; whatever the machine was given is taken off it at the end."""
    made = Scene(stage.ctx, stage.vcenter, stage.soap, f"data-{next(_NUMBERS)}")
    create(made.ctx, made.volume)
    yield made
    strip(made)


def strip(scene: Scene, name: str = "worker-1") -> None:
    """Take every disk but the first off a machine, behind the back of the functions."""
    machine = scene.machine(name)
    changes = [
        vim.vm.device.VirtualDeviceSpec(operation="remove", device=disk)
        for disk in scene.soap.disks(machine)[1:]
    ]
    if changes:
        scene.soap.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=changes)))
