"""The functions by name."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.machine.create_machine import create_machine, undo_create_machine
from vsphere_functions.machine.delete_machine import delete_machine
from vsphere_functions.machine.get_machine_status import get_machine_status
from vsphere_functions.machine.initialize_machine import initialize_machine
from vsphere_functions.machine.list_machines import list_machines
from vsphere_functions.machine.shut_down_machine import shut_down_machine
from vsphere_functions.machine.validate_machine import validate_machine
from vsphere_functions.request.cancel_request import cancel_request
from vsphere_functions.request.find_orphans import find_orphans
from vsphere_functions.volume.attach_volume import attach_volume
from vsphere_functions.volume.copy_volume import copy_volume, undo_copy_volume
from vsphere_functions.volume.create_volume import create_volume, undo_create_volume
from vsphere_functions.volume.destroy_volume import destroy_volume
from vsphere_functions.volume.detach_volume import detach_volume
from vsphere_functions.volume.get_volume import get_volume
from vsphere_functions.volume.get_volume_ids import get_volume_ids
from vsphere_functions.volume.list_volumes import list_volumes
from vsphere_functions.volume.resize_volume import resize_volume

Catalogue: TypeAlias = Mapping[str, Callable[[Any, Any], Any]]

CATALOGUE: Catalogue = {
    "create_machine": create_machine,
    "delete_machine": delete_machine,
    "get_machine_status": get_machine_status,
    "list_machines": list_machines,
    "shut_down_machine": shut_down_machine,
    "initialize_machine": initialize_machine,
    "validate_machine": validate_machine,
    "get_volume_ids": get_volume_ids,
    "create_volume": create_volume,
    "get_volume": get_volume,
    "destroy_volume": destroy_volume,
    "list_volumes": list_volumes,
    "attach_volume": attach_volume,
    "detach_volume": detach_volume,
    "resize_volume": resize_volume,
    "copy_volume": copy_volume,
    "find_orphans": find_orphans,
    "cancel_request": cancel_request,
}

UNDO: Catalogue = {
    "create_machine": undo_create_machine,
    "create_volume": undo_create_volume,
    "copy_volume": undo_copy_volume,
}
"""What takes back the work of a canceled request; what is not named here stops where it is."""


def implementation(catalogue: Catalogue, name: str) -> Callable[[Any, Any], Any]:
    """Find a function; Unimplemented for one of the contract that is not built yet."""
    if name not in catalogue:
        raise CallError(Code.UNIMPLEMENTED, f"{name} is not built yet")
    return catalogue[name]
