"""Bootstrap data for cloud-init's VMware datasource, by guestinfo keys."""

from collections.abc import Mapping
from typing import Any

from vsphere_functions.bootstrap.encode import flow, keyed


def cloud_init(
    hostname: str,
    instance_id: str,
    user_data: str | None,
    network: Mapping[str, Any] | None = None,
    vendor_data: str | None = None,
) -> dict[str, str]:
    """Return the guestinfo keys and values: metadata always, user data and vendor data when there are some.

    Values are gzip+base64 and say so in `….encoding`; `network` is network config version 2 (cloud-init,
    DataSourceVMware).
    """
    metadata = {"instance-id": instance_id, "local-hostname": hostname}
    values = keyed("metadata", flow({**metadata, "network": network} if network else metadata))
    for name, text in (("userdata", user_data), ("vendordata", vendor_data)):
        values |= keyed(name, text) if text else {}
    return values
