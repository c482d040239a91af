"""A small pyVmomi client for looking at a simulated vCenter past our own gateway."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from pyVmomi import vim, vmodl
from pyVmomi.SoapAdapter import SoapStubAdapter

if TYPE_CHECKING:
    import ssl

    from vsphere_functions.local.vcenter import SimulatedVCenter

Collector = vmodl.query.PropertyCollector


class Soap:
    """A session of its own, open within a `with`."""

    def __init__(
        self, vcenter: SimulatedVCenter, *, port: int | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        self._user = {"userName": vcenter.username, "password": vcenter.password}
        self._stub = SoapStubAdapter(
            host=vcenter.host,
            port=port or vcenter.port,
            version="vim.version.v8_0_3_0",
            sslContext=context or vcenter.ssl_context,
            httpConnectionTimeout=30,
        )

    def __enter__(self) -> Self:
        try:
            instance: Any = vim.ServiceInstance("ServiceInstance", self._stub)
            self.content = instance.RetrieveContent()
            self.content.sessionManager.Login(**self._user)
        except BaseException:
            self._stub.DropConnections()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.content.sessionManager.Logout()
        finally:
            self._stub.DropConnections()

    def find(self, path: str) -> Any:
        """The object at an inventory path, or None."""
        return self.content.searchIndex.FindByInventoryPath(path)

    def read(self, target: Any, *paths: str) -> dict[str, Any]:
        """Some properties of one object; a property that is unset is left out."""
        spec = Collector.FilterSpec(
            objectSet=[Collector.ObjectSpec(obj=target)],
            propSet=[Collector.PropertySpec(type=type(target), pathSet=list(paths))],
        )
        found = self.content.propertyCollector.RetrievePropertiesEx([spec], Collector.RetrieveOptions())
        return {entry.name: entry.val for entry in found.objects[0].propSet}

    def wait(self, task: Any) -> Any:
        """The result of a task; its fault is raised."""
        while self.read(task, "info.state")["info.state"] not in ("success", "error"):
            time.sleep(0.005)
        info = self.read(task, "info.result", "info.error")
        if error := info.get("info.error"):
            raise error
        return info.get("info.result")

    def start_clone(self, name: str, *, source: Any = None, **config: Any) -> Any:
        """Start to clone into DC0's demo/machines."""
        spec = vim.vm.CloneSpec(
            location=vim.vm.RelocateSpec(pool=self.find("/DC0/host/DC0_C0/Resources")),
            config=vim.vm.ConfigSpec(**config),
            powerOn=False,
            template=False,
        )
        template = source or self.find("/DC0/vm/templates/ubuntu-24.04")
        return template.CloneVM_Task(folder=self.find("/DC0/vm/demo/machines"), name=name, spec=spec)

    def clone(self, name: str, *, source: Any = None, **config: Any) -> Any:
        """Clone into DC0's demo/machines, powered off."""
        return self.wait(self.start_clone(name, source=source, **config))

    def devices(self, machine: Any, kind: type) -> list[Any]:
        """The devices of one kind."""
        path = "config.hardware.device"
        return [device for device in self.read(machine, path)[path] if isinstance(device, kind)]

    def disks(self, machine: Any) -> list[Any]:
        """The disks of a machine."""
        return self.devices(machine, vim.vm.device.VirtualDisk)

    def make_folder(self, path: str) -> None:
        """Make a folder in a datastore of DC0."""
        self.content.fileManager.MakeDirectory(path, self.find("/DC0"), createParentDirectories=False)

    def create_disk(self, path: str, *, kib: int = 1 << 20) -> None:
        """Create a thin disk in DC0."""
        spec = vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
            capacityKb=kib, diskType="thin", adapterType="lsiLogic"
        )
        self.wait(self.content.virtualDiskManager.CreateVirtualDisk_Task(path, self.find("/DC0"), spec))

    def move_disk(self, path: str, to: str) -> None:
        """Move a disk within DC0."""
        center = self.find("/DC0")
        self.wait(self.content.virtualDiskManager.MoveVirtualDisk_Task(path, center, to, center))

    def move_file(self, path: str, to: str) -> None:
        """Move a file or folder within DC0."""
        center = self.find("/DC0")
        self.wait(self.content.fileManager.MoveDatastoreFile_Task(path, center, to, center))

    def disk_uuid(self, path: str) -> str:
        """A disk's uuid as vCenter writes it: pairs, with one dash."""
        return str(self.content.virtualDiskManager.QueryVirtualDiskUuid(path, self.find("/DC0")))

    def attach(self, machine: Any, path: str, *, unit: int = 1) -> None:
        """Attach an existing disk to the machine's first SCSI controller."""
        controller = self.devices(machine, vim.vm.device.VirtualSCSIController)[0]
        backing = vim.vm.device.VirtualDisk.FlatVer2BackingInfo(
            fileName=path, diskMode="independent_persistent"
        )
        disk = vim.vm.device.VirtualDisk(
            key=-1, controllerKey=controller.key, unitNumber=unit, capacityInKB=0, backing=backing
        )
        change = vim.vm.device.VirtualDeviceSpec(operation="add", device=disk)
        self.wait(machine.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[change])))
