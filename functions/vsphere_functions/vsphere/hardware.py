"""The settings of a VM that a spec asks for: CPU, memory, shares and flags."""

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vsphere_events.hardware import Allocation
from vsphere_events.provider_spec import CreateSpec
from vsphere_functions.vsphere.machine import SETTINGS, Machine

_ENABLE_UUID = "disk.enableuuid"


def hardware(spec: CreateSpec) -> dict[str, Any]:
    """Return what the spec sets of a ConfigSpec, as plain data; memory in MiB, CPU in MHz.

    Disks show their uuids in the guest, as in Gardener, unless extraConfig says something about it.
    """
    asked = {
        "numCPUs": spec.num_cpus,
        "numCoresPerSocket": spec.cores_per_socket,
        "memoryMB": spec.memory,
        "guestId": spec.guest_id,
        "cpuAllocation": _allocation(spec.cpu_allocation),
        "memoryAllocation": _allocation(spec.memory_allocation),
        "memoryReservationLockedToMax": spec.memory_reservation_locked_to_max,
    }
    if _ENABLE_UUID not in map(str.lower, spec.extra_config):
        asked["flags"] = {"diskUuidEnabled": True}
    return {name: value for name, value in asked.items() if value is not None}


def differing(machine: Machine, spec: CreateSpec) -> dict[str, Any]:
    """Return the fields of a ConfigSpec that set what the machine does not have yet."""
    asked = hardware(spec).items()
    return config_fields(
        {name: value for name, value in asked if not _has(machine.row.get(SETTINGS[name]), value)}
    )


def config_fields(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Turn plain data into the fields of a ConfigSpec."""
    fields = dict(asked)
    for name in ("cpuAllocation", "memoryAllocation"):
        if name in fields:
            told = dict(fields[name])
            if "shares" in told:
                told["shares"] = vim.SharesInfo(**{"shares": 0, **told["shares"]})
            fields[name] = vim.ResourceAllocationInfo(**told)
    if "flags" in fields:
        fields["flags"] = vim.vm.FlagInfo(**fields["flags"])
    return fields


def _allocation(asked: Allocation | None) -> dict[str, Any] | None:
    if asked is None:
        return None
    told: dict[str, Any] = {"reservation": asked.reservation, "limit": asked.limit}
    if asked.shares is not None:
        level = isinstance(asked.shares, str)
        told["shares"] = {"level": asked.shares} if level else {"level": "custom", "shares": asked.shares}
    return {name: value for name, value in told.items() if value is not None}


def _has(shown: Any, asked: Any) -> bool:
    """Say whether what a VM shows has all that is asked for; a data object may have more."""
    if isinstance(asked, Mapping):
        return isinstance(shown, Mapping) and all(_has(shown.get(name), one) for name, one in asked.items())
    return str(shown).lower() == str(asked).lower()
