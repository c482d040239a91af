"""JSON as strictly as events need it: one meaning per text, nothing that cannot be sent on."""

import json
from typing import Any, NoReturn

from vsphere_events.code import Code
from vsphere_events.error import CallError

DEPTH = 64
"""The deepest nesting taken: far above any event's, far below what any parser gives up at."""


def loads(text: str | bytes) -> Any:
    """Parse UTF-8 JSON; InvalidArgument for double keys, NaN, infinities, lone surrogates, deep nesting."""
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(text)
        if not text.isascii() or "\\u" in text:
            dumps(value)  # refuses half of a surrogate pair
    except CallError:
        raise
    except UnicodeError:
        raise _refused("not UTF-8, or half of a surrogate pair") from None
    except RecursionError:
        raise _refused("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise _refused(f"not JSON: {error.msg} (character {error.pos})") from None
    except ValueError:
        raise _refused("an integer with too many digits") from None
    if text.count("{") + text.count("[") > DEPTH:
        _check_depth(value)
    return value


def dumps(value: Any) -> bytes:
    """Render compact UTF-8 JSON, keys in the order given."""
    return _ENCODER.encode(value).encode("utf-8")


def canonical(value: Any) -> bytes:
    """Render one text per value: sorted keys, no spaces, UTF-8."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
    ).encode("utf-8")


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise _refused("nested too deeply")
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise _refused("an object has the same member twice")
    return made


def _constant(name: str) -> NoReturn:
    raise _refused(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise _refused("a number out of range")
    return number


def _refused(reason: str) -> CallError:
    return CallError(Code.INVALID_ARGUMENT, reason)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
