r"""Names as vSphere stores them: `%`, `/` and `\` escaped, once."""

import re

_ESCAPES = {"%": "%25", "/": "%2f", "\\": "%5c"}
_PLAIN = {"%25": "%", "%2f": "/", "%5c": "\\"}


def escape(name: str) -> str:
    """Return the name as an inventory stores it (vSphere API, ManagedEntity.name)."""
    return re.sub(r"[%/\\]", lambda found: _ESCAPES[found[0]], name)


def unescape(name: str) -> str:
    """Return the name as people write it; a `%` that starts no escape stays."""
    return re.sub("%(25|2f|5c)", lambda found: _PLAIN[found[0].lower()], name, flags=re.IGNORECASE)
