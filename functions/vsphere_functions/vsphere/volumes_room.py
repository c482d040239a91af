"""The limits of a store, looked at before anything is made in it."""

from vsphere_events.code import Code
from vsphere_events.error import CallError, Detail
from vsphere_events.model import problems
from vsphere_functions.vsphere.files import Disk
from vsphere_functions.vsphere.stores import Store, StoreConfig
from vsphere_functions.vsphere.volumes import browse
from vsphere_functions.vsphere.volumes_list import capacities


def refuse_too_large(config: StoreConfig, capacity_kb: int, field: str = "capacityKB") -> None:
    """Refuse a volume that is larger than any may be in the store; InvalidArgument for the field."""
    if config.largest_kb is not None and capacity_kb > config.largest_kb:
        reason = f"volumes of store {config.name} have at most {config.largest_kb} KiB"
        raise problems((Detail(reason, field),))


def refuse_without_room(store: Store, volume_id: str, disk: Disk, has_kb: int = 0) -> None:
    """Refuse what goes over the store's limits, or does not fit: ResourceExhausted.

    `has_kb` is what a volume that grows has already; a new one that stands already takes no room.
    """
    config, new = store.config, has_kb == 0
    thick = disk.format != "thin" and disk.capacity_kb - has_kb > store.free_kb
    most = config.volumes if new else None
    if not thick and most is None and config.total_kb is None:
        return
    leaves, _ = browse(store)
    if new and volume_id in leaves and leaves[volume_id].has_metadata:
        return
    others = [leaf for name, leaf in leaves.items() if name != volume_id and not leaf.foreign]
    if thick:
        what = f"{store.datastore} has {store.free_kb} KiB left"
    elif most is not None and len(others) >= most:
        what = f"it has {len(others)} volumes of at most {most}"
    elif config.total_kb is not None and (used := capacities(others)) + disk.capacity_kb > config.total_kb:
        what = f"its other volumes have {used} KiB of at most {config.total_kb}"
    else:
        return
    raise CallError(Code.RESOURCE_EXHAUSTED, f"store {config.name} has no room for this: {what}")
