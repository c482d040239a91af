"""Volumes made and unmade by the functions themselves, on a simulated vCenter."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from support.machines import TAGS, at, end
from vsphere_events.volume import (
    AttachVolumeRequest,
    AttachVolumeResult,
    CopyVolumeRequest,
    CreateVolumeRequest,
    DestroyVolumeRequest,
    DetachVolumeRequest,
    DetachVolumeResult,
    GetVolumeRequest,
    ListVolumesRequest,
    ListVolumesResult,
    ResizeVolumeRequest,
    Volume,
)
from vsphere_functions.context import Context
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.steps import Step
from vsphere_functions.volume.attach_volume import attach_volume
from vsphere_functions.volume.copy_volume import copy_volume
from vsphere_functions.volume.create_volume import create_volume
from vsphere_functions.volume.destroy_volume import destroy_volume
from vsphere_functions.volume.detach_volume import detach_volume
from vsphere_functions.volume.get_volume import get_volume
from vsphere_functions.volume.list_volumes import list_volumes
from vsphere_functions.volume.resize_volume import resize_volume
from vsphere_functions.vsphere.files import DatastorePath, Files
from vsphere_functions.vsphere.in_use import WHERE
from vsphere_functions.vsphere.stores import Store, StoreConfig, Stores, look_around

INSTALLATION = "0f5a6f0e-8a62-4c8a-9f0e-3d1d5c4b2a10"
GIB = 1 << 20


def store(
    name: str = "default", path: str = "[we ird (1)] vols", datacenter: str = "DC0", **more: Any
) -> StoreConfig:
    """A store as settings would give it; `more` are its limits and its vCenter."""
    place = DatastorePath.parse(path)
    folder = DatastorePath(place.datastore, (*place.parts, "VIC", INSTALLATION, "volumes"))
    return StoreConfig(name, more.pop("vcenter", "default"), datacenter, folder, **more)


STORES = (store(), store("second", "[LocalDS_0] other"))


@contextmanager
def with_stores(
    vcenter: SimulatedVCenter, *configs: StoreConfig, port: int | None = None, **more: Any
) -> Iterator[Context]:
    """A context with the given stores, or with `default` and `second`."""
    with at(vcenter, port, stores=Stores("default", configs or STORES), **more) as ctx:
        yield ctx


def _named(volume_id: str | None, more: dict[str, Any]) -> dict[str, Any]:
    return {"id": volume_id, **more} if volume_id else more


def creating(ctx: Context, volume_id: str | None = "data-1", **more: Any) -> Generator[Step, None, Any]:
    """A create that has not taken its first step yet."""
    return create_volume(CreateVolumeRequest.parse(_named(volume_id, more)), ctx)


def create(ctx: Context, volume_id: str | None = "data-1", **more: Any) -> Volume:
    """Create a volume."""
    made: Volume = end(creating(ctx, volume_id, **more)).volume
    return made


def get(ctx: Context, volume_id: str | None = "data-1", **more: Any) -> Volume:
    """Look at a volume."""
    return get_volume(GetVolumeRequest.parse(_named(volume_id, more)), ctx).volume


def destroying(ctx: Context, volume_id: str | None = "data-1", **more: Any) -> Generator[Step, None, Any]:
    """A destroy that has not taken its first step yet."""
    return destroy_volume(DestroyVolumeRequest.parse(_named(volume_id, more)), ctx)


def destroy(ctx: Context, volume_id: str | None = "data-1", **more: Any) -> None:
    """Destroy a volume."""
    end(destroying(ctx, volume_id, **more))


def _pair(volume_id: str | None, machine: str, more: dict[str, Any]) -> dict[str, Any]:
    return _named(volume_id, {"machineName": machine, "providerSpec": {"tags": TAGS}, **more})


def attaching(
    ctx: Context, volume_id: str | None = "data-1", machine: str = "worker-1", **more: Any
) -> Generator[Step, None, Any]:
    """An attach that has not taken its first step yet."""
    return attach_volume(AttachVolumeRequest.parse(_pair(volume_id, machine, more)), ctx)


def attach(
    ctx: Context, volume_id: str | None = "data-1", machine: str = "worker-1", **more: Any
) -> AttachVolumeResult:
    """Attach a volume."""
    done: AttachVolumeResult = end(attaching(ctx, volume_id, machine, **more))
    return done


def detaching(
    ctx: Context, volume_id: str | None = "data-1", machine: str = "worker-1", **more: Any
) -> Generator[Step, None, Any]:
    """A detach that has not taken its first step yet."""
    return detach_volume(DetachVolumeRequest.parse(_pair(volume_id, machine, more)), ctx)


def detach(
    ctx: Context, volume_id: str | None = "data-1", machine: str = "worker-1", **more: Any
) -> DetachVolumeResult:
    """Detach a volume."""
    done: DetachVolumeResult = end(detaching(ctx, volume_id, machine, **more))
    return done


def resizing(
    ctx: Context, capacity_kb: int, volume_id: str | None = "data-1", **more: Any
) -> Generator[Step, None, Any]:
    """A resize that has not taken its first step yet."""
    asked = {"capacityKB": capacity_kb, **more}
    return resize_volume(ResizeVolumeRequest.parse(_named(volume_id, asked)), ctx)


def resize(ctx: Context, capacity_kb: int, volume_id: str | None = "data-1", **more: Any) -> Volume:
    """Grow a volume."""
    grown: Volume = end(resizing(ctx, capacity_kb, volume_id, **more)).volume
    return grown


def duplicating(
    ctx: Context, to_id: str = "data-2", volume_id: str | None = "data-1", **more: Any
) -> Generator[Step, None, Any]:
    """A copy that has not taken its first step yet."""
    return copy_volume(CopyVolumeRequest.parse(_named(volume_id, {"toId": to_id, **more})), ctx)


def duplicate(ctx: Context, to_id: str = "data-2", volume_id: str | None = "data-1", **more: Any) -> Volume:
    """Copy a volume."""
    made: Volume = end(duplicating(ctx, to_id, volume_id, **more)).volume
    return made


def listing(ctx: Context, **more: Any) -> ListVolumesResult:
    """List volumes."""
    return list_volumes(ListVolumesRequest.parse(more), ctx)


def found_store(ctx: Context, name: str = "default") -> Store:
    """The store as the functions find it."""
    return look_around(ctx.vcenter(), ctx.stores, WHERE).store(name)


def files_of(ctx: Context, name: str = "default") -> Files:
    """The file access of a store, for looking past the functions."""
    return found_store(ctx, name).files


def contents(ctx: Context, name: str = "default") -> dict[str, list[str]]:
    """What lies in a store: folder below it → file names."""
    found = found_store(ctx, name)
    depth = len(found.folder.parts)
    folders = found.files.browse(found.folder)
    return {"/".join(one.path.parts[depth:]): sorted(one.files) for one in folders}
