"""Bootstrap data for cloud-init's VMware datasource, by guestinfo keys."""

import gzip
import json
from base64 import b64encode


def cloud_init(hostname: str, instance_id: str, user_data: str | None) -> dict[str, str]:
    """Return the guestinfo keys and values: metadata always, user data when there is some.

    Values are gzip+base64 and say so in `….encoding` (cloud-init, DataSourceVMware).
    """
    metadata = json.dumps({"instance-id": instance_id, "local-hostname": hostname})
    values = _keyed("metadata", metadata)
    return values | _keyed("userdata", user_data) if user_data else values


def _keyed(name: str, text: str) -> dict[str, str]:
    packed = b64encode(gzip.compress(text.encode(), mtime=0)).decode()
    return {f"guestinfo.{name}": packed, f"guestinfo.{name}.encoding": "gzip+base64"}
