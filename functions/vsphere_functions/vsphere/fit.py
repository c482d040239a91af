"""Whether a spec fits its template; everything that does not is named."""

from collections.abc import Iterator

from vsphere_events.error import Detail
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.disks import KIB_PER_GIB, disks_of
from vsphere_functions.vsphere.session import Row
from vsphere_functions.vsphere.slots import places, slots
from vsphere_functions.vsphere.vapp import unsettable


def fit(spec: CreateSpec, template: Row) -> list[Detail]:
    """Name what the template does not allow."""
    found = (*_system_disk(spec, template), *_data_disks(spec, template), *_sizes(spec, template))
    details = [Detail(reason, f"providerSpec.{field}") for field, reason in found]
    return [*details, *unsettable(spec, template)]


def _system_disk(spec: CreateSpec, template: Row) -> Iterator[tuple[str, str]]:
    """Refuse a first disk that would have to shrink, or none to size."""
    size = spec.system_disk and spec.system_disk.size
    if not size:
        return
    disks = disks_of(template.get("config.hardware.device"))
    if not disks:
        yield "systemDisk.size", "the template has no disk to size"
    elif size * KIB_PER_GIB < disks[0].capacity_kb:
        least = -(-disks[0].capacity_kb // KIB_PER_GIB)
        yield "systemDisk.size", f"{size} GiB is smaller than the template's disk; at least {least} GiB"


def _data_disks(spec: CreateSpec, template: Row) -> Iterator[tuple[str, str]]:
    devices = template.get("config.hardware.device") or []
    free = len(list(slots(devices)))
    if len(spec.disks) > free:
        yield (
            "disks",
            f"the template's SCSI controllers have room for {free} more disks, not {len(spec.disks)}",
        )
    left = len(places(devices)) - len(spec.disks)
    if len(spec.volumes) > left:
        yield "volumes", f"the machine has room for {left} of the {len(spec.volumes)} volumes"


def _sizes(spec: CreateSpec, template: Row) -> Iterator[tuple[str, str]]:
    cpus = int(template.get("config.hardware.numCPU", 0))
    if spec.cores_per_socket and not spec.num_cpus and cpus % spec.cores_per_socket:
        yield "coresPerSocket", f"does not divide the template's {cpus} CPUs"
    memory = int(template.get("config.hardware.memoryMB", 0))
    reserved = (spec.memory_allocation and spec.memory_allocation.reservation) or 0
    if not spec.memory and reserved > memory:
        yield "memoryAllocation.reservation", f"is more than the template's {memory} MiB of memory"
