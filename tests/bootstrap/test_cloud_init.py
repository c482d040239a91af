"""Bootstrap data for cloud-init."""

import gzip
import json
from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st

from vsphere_functions.bootstrap.cloud_init import cloud_init


@given(st.text(min_size=1), st.text())
def test_user_data_comes_back_as_it_was(data: str, hostname: str) -> None:
    values = cloud_init(hostname, "i-1", data.encode(errors="ignore").decode() or "x")
    told = json.loads(gzip.decompress(b64decode(values["guestinfo.metadata"])))
    assert told == {"instance-id": "i-1", "local-hostname": hostname}
    packed = gzip.decompress(b64decode(values["guestinfo.userdata"]))
    assert packed == (data.encode(errors="ignore") or b"x")
    assert values["guestinfo.userdata.encoding"] == values["guestinfo.metadata.encoding"] == "gzip+base64"


def test_without_user_data_only_the_metadata_is_given() -> None:
    assert cloud_init("w", "i-1", None).keys() == {"guestinfo.metadata", "guestinfo.metadata.encoding"}


def test_the_same_data_are_the_same_values() -> None:
    assert cloud_init("w", "i-1", "x") == cloud_init("w", "i-1", "x")
