"""A machine as one read of narrow paths shows it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from typing import Any

from vsphere_events.error import CallError
from vsphere_events.machine import Address
from vsphere_events.provider_id import ProviderID
from vsphere_functions.vsphere.identity import BORN, DETACHED, MARK, Mark
from vsphere_functions.vsphere.names import unescape
from vsphere_functions.vsphere.ref import Ref
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.vcenter import VCenter


def keyed(key: str) -> str:
    """Return the property path of one extraConfig value."""
    return f'config.extraConfig["{key}"]'


BOOTSTRAP = tuple(
    f"guestinfo.{name}{suffix}"
    for name in ("metadata", "userdata", "vendordata", "ignition.config.data")
    for suffix in ("", ".encoding")
)
"""The guestinfo keys that cloud-init and Ignition read."""

SEEN = ("name", "config.uuid", "config.template", keyed(MARK))
"""What a pass over thousands of VMs reads of each: enough to tell whose it is, but for few."""

IDENTITY = (*SEEN, "config.instanceUuid")
"""What tells whose a VM is."""

STATUS = (
    *IDENTITY,
    keyed(DETACHED),
    "runtime.powerState",
    "runtime.connectionState",
    "guest.net",
)

SETTINGS = {
    "numCPUs": "config.hardware.numCPU",
    "numCoresPerSocket": "config.hardware.numCoresPerSocket",
    "memoryMB": "config.hardware.memoryMB",
    "guestId": "config.guestId",
    "cpuAllocation": "config.cpuAllocation",
    "memoryAllocation": "config.memoryAllocation",
    "memoryReservationLockedToMax": "config.memoryReservationLockedToMax",
    "flags": "config.flags",
}
"""Fields of a ConfigSpec, and where a VM shows what it has of them."""

WHOLE = (
    *STATUS,
    keyed(BORN),
    *(keyed(key) for key in BOOTSTRAP),
    *SETTINGS.values(),
    "config.hardware.device",
    "config.vAppConfig.property",
    "config.files.vmPathName",
    "customValue",
    "guest.toolsRunningStatus",
    "layoutEx.disk",
    "layoutEx.file",
    "layoutEx.snapshot",
    "runtime.question",
    "snapshot",
)


@dataclass(frozen=True)
class Machine:
    """One VM: who it is, and the row it was read from."""

    ref: Ref
    row: Row

    @property
    def name(self) -> str:
        """The VM's name as people write it."""
        return unescape(self.row.get("name", ""))

    @property
    def uuid(self) -> str | None:
        """The BIOS uuid, lower case; None while `config` cannot be read."""
        uuid = self.row.get("config.uuid")
        return uuid.lower() if uuid else None

    @cached_property
    def mark(self) -> Mark | None:
        """The ownership mark, whoever put it there."""
        return Mark.parse(self.row.get(keyed(MARK)))

    @cached_property
    def own_mark(self) -> Mark | None:
        """The mark, when this VM is the marked one and no copy of it, and no template."""
        mark, instance = self.mark, self.row.get("config.instanceUuid")
        if mark is None or self.row.get("config.template") or not mark.is_of(self.uuid, instance):
            return None
        return mark

    @property
    def readable(self) -> bool:
        """Whether the row says who the VM is (its `config` was there)."""
        return self.uuid is not None

    @property
    def connected(self) -> bool:
        """Whether the VM's host answers and the VM's files are within reach."""
        return bool(self.row.get("runtime.connectionState", "connected") == "connected")

    @property
    def power(self) -> str | None:
        """The power state as vSphere spells it."""
        return self.row.get("runtime.powerState")

    @property
    def macs(self) -> list[str]:
        """The addresses of the VM's network cards, in the order of their slots; "" for one without."""
        cards = [one for one in self.row.get("config.hardware.device") or [] if "macAddress" in one]
        return [str(one["macAddress"]).lower() for one in sorted(cards, key=lambda one: int(one["key"]))]

    @property
    def tools(self) -> bool:
        """Whether VMware Tools run in the guest, so that it can be asked for something."""
        return bool(self.row.get("guest.toolsRunningStatus") == "guestToolsRunning")

    @property
    def ready(self) -> bool:
        """Whether its create got to the end once."""
        return self.mark is not None and self.mark.ready

    @property
    def detached(self) -> str | None:
        """What a delete has detached so far, as it wrote it down."""
        return self.row.get(keyed(DETACHED)) or None


def provider_id(machine: Machine) -> ProviderID:
    """Return the machine's providerID, with the region that its create was given."""
    return ProviderID(machine.uuid or "", machine.mark.region if machine.mark else None)


@contextmanager
def named_in_errors(machine: Machine) -> Iterator[None]:
    """Let an error of what is done with a machine say which one it is about."""
    try:
        yield
    except CallError as error:
        if machine.uuid:
            error.provider_id = error.provider_id or str(provider_id(machine))
        raise


def node_name(machine: Machine) -> str:
    """Return the name of the machine's node: the name that its create was given."""
    return machine.mark.machine if machine.mark else machine.name


def addresses(machine: Machine) -> tuple[Address, ...]:
    """Return the guest's addresses on the VM's own cards; none that only the guest's own networks know."""
    nics = [nic for nic in machine.row.get("guest.net") or [] if int(nic.get("deviceConfigId", -1)) >= 0]
    found = [address for nic in nics for address in listed(nic.get("ipAddress")) if _reachable(address)]
    return tuple(Address(type="InternalIP", address=one) for one in found)


def _reachable(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return not (ip.is_link_local or ip.is_loopback or ip.is_unspecified or ip.is_multicast)


def listed(value: Any) -> list[Any]:
    """Return what the reader gave for a repeated element as a list, however often it stood there."""
    if value is None or value == "":
        return []
    return value if isinstance(value, list) else [value]


def read_machines(vcenter: VCenter, refs: Iterable[Ref], paths: tuple[str, ...] = WHOLE) -> list[Machine]:
    """Read the given VMs in one call; one that has gone is left out."""
    refs = list(refs)
    if not refs:
        return []
    return list(machines(vcenter.read(refs, {"VirtualMachine": paths})))


def machines(rows: dict[Ref, Row]) -> Iterator[Machine]:
    """Yield the machines among the rows."""
    return (Machine(ref, row) for ref, row in rows.items() if ref.type == "VirtualMachine")
