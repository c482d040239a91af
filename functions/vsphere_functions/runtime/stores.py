"""The volume stores of a request, from the settings."""

from vsphere_functions.runtime.settings import Settings, Store
from vsphere_functions.vsphere.files import DatastorePath
from vsphere_functions.vsphere.stores import StoreConfig, Stores


def stores_of(settings: Settings, label: str, host: str) -> Stores:
    """Return all stores on the vCenter at `host`, whichever label they are set up for.

    A request that brings a login at another host has none: its vCenter is not the one they were set up on.
    """
    there = {name for name, vcenter in settings.vcenters.items() if vcenter.host == host}
    return Stores(
        label, tuple(_config(name, one) for name, one in settings.stores.items() if one.vcenter in there)
    )


def _config(name: str, store: Store) -> StoreConfig:
    place = DatastorePath.parse(store.path)
    folder = DatastorePath(place.datastore, (*place.parts, "VIC", store.installation, "volumes"))
    return StoreConfig(
        name=name,
        vcenter=store.vcenter,
        datacenter=store.datacenter,
        folder=folder,
        default_kb=store.default_kb,
        largest_kb=store.largest_kb,
        total_kb=store.total_kb,
        volumes=store.volumes,
    )
