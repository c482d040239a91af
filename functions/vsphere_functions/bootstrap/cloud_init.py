"""Bootstrap data for cloud-init's VMware datasource, by guestinfo keys."""

from collections.abc import Mapping
from typing import Any

from vsphere_functions.bootstrap.encode import flow, keyed


def cloud_init(
    hostname: str, instance_id: str, user_data: str | None, network: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the guestinfo keys and values: metadata always, user data when there is some.

    Values are gzip+base64 and say so in `….encoding`; `network` is network config version 2 (cloud-init,
    DataSourceVMware).
    """
    metadata = {"instance-id": instance_id, "local-hostname": hostname}
    values = keyed("metadata", flow({**metadata, "network": network} if network else metadata))
    return values | keyed("userdata", user_data) if user_data else values
