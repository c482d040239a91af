"""How bootstrap data is written down for guestinfo, and what it may weigh."""

import gzip
import json
import re
from base64 import b64encode
from typing import Any

LIMIT = 64 * 1024
"""Bytes of one guestinfo value; vSphere cuts off or refuses more."""

ENCODING = "gzip+base64"

_UNWRITABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def packed(text: str) -> str:
    """Compress and encode; the same text always gives the same value."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def keyed(name: str, text: str) -> dict[str, str]:
    """Return a guestinfo key and value, and the key that says how it is encoded."""
    return {f"guestinfo.{name}": packed(text), f"guestinfo.{name}.encoding": ENCODING}


def flow(value: Any) -> str:
    """Write JSON that YAML 1.1 reads the same way.

    YAML takes no control characters, reads U+0085, U+2028 and U+2029 as line ends, and knows no surrogate pairs.
    """
    text = json.dumps(value, ensure_ascii=False)
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
