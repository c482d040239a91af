"""Request data as people may see them: without what opens something."""

import json
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "********"

_NAMES = re.compile(
    r"secret(?!ref$|name$)|passw|passphrase|pwd|credential|userdata|kubeconfig|privatekey|apikey"
    r"|authorization|cookie|token(?<!pagetoken)$"
)
"""Of names in lower case and without punctuation: whatever stands under one is hidden."""
_BOOT = re.compile(r"\s*(#cloud-|#!|#include|content-type: multipart)", re.IGNORECASE)


def hidden(name: str) -> bool:
    """Tell whether what a field or header of this name holds is kept from view."""
    return _NAMES.search(re.sub(r"[^a-z0-9]", "", name.lower())) is not None


def masked(value: Any) -> Any:
    """Return JSON data with secrets hidden at any depth, in JSON inside texts too; the names stay to be seen."""
    if isinstance(value, Mapping):
        if "ignition" in value:
            return HIDDEN
        return {name: _hide(inner) if hidden(name) else masked(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _hide(value: Any) -> Any:
    """Hide every value below, null excepted; a map keeps its names, which say what was given."""
    if isinstance(value, Mapping):
        return {name: _hide(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(one) for one in value]
    return None if value is None else HIDDEN


def _text(text: str) -> str:
    if _BOOT.match(text):
        return HIDDEN
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if (shown := masked(inner)) == inner else json.dumps(shown)
