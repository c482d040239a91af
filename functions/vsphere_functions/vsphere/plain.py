"""vSphere's XML values as plain Python."""

from collections.abc import Callable
from functools import lru_cache
from sys import intern
from typing import Any

from lxml import etree
from pyVmomi.VmomiSupport import DataObject, GuessWsdlType

from vsphere_functions.vsphere.ref import Ref

_XSI_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"
_ARRAY = "ArrayOf"
_SCALARS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "boolean": lambda text: text.strip() in ("true", "1"),
    **dict.fromkeys(("byte", "short", "int", "long"), int),
    **dict.fromkeys(("float", "double"), float),
}


def value(node: etree._Element, declared: str | None = None) -> Any:
    """Turn an element into a plain value; `declared` is its type where the element does not say.

    Scalars of an XML Schema type become int, bool, float or str; a managed object becomes a Ref; an array a list;
    a data object a dict whose `_type` names its type. An element without a type of its own inside a data object is
    text, and an element that its type declares as repeated is a list however often it stands there.
    """
    stated = node.get(_XSI_TYPE)
    kind = stated.rpartition(":")[2] if stated else declared
    if kind in _SCALARS:
        return _SCALARS[kind](node.text or "")
    if len(node) == 0:
        return _leaf(node, kind)
    if kind is not None and kind.startswith(_ARRAY):
        return [value(child, _item(kind)) for child in node]
    return _object(node, kind)


def local(tag: Any) -> str:
    """Return an element's name without its namespace."""
    return str(tag).rpartition("}")[2]


def _leaf(node: etree._Element, kind: str | None) -> Any:
    target = node.get("type")
    if target is not None:
        return Ref(intern(target), node.text or "")
    if kind is not None and kind.startswith(_ARRAY):
        return []
    if kind is not None and not node.text and _fields(kind) is not None:
        return {"_type": kind}
    return node.text or ""


def _item(kind: str) -> str | None:
    """Return the type of an array's elements, `ArrayOfString` → `string`."""
    item = kind.removeprefix(_ARRAY)
    return item.lower() if item.lower() in _SCALARS else item


def _object(node: etree._Element, kind: str | None) -> dict[str, Any]:
    fields = (_fields(kind) if kind else None) or {}
    made: dict[str, Any] = {"_type": kind} if kind else {}
    for child in node:
        name = local(child.tag)
        declared, many = fields.get(name, (None, False))
        held = value(child, declared)
        if many:
            made.setdefault(name, []).append(held)
        elif name not in made:
            made[name] = held
        elif isinstance(made[name], list):
            made[name].append(held)
        else:
            made[name] = [made[name], held]
    return made


@lru_cache(maxsize=2048)
def _fields(kind: str) -> dict[str, tuple[str | None, bool]] | None:
    """Return the fields of a data object type: name → type of a data object in it, repeated or not; None for others."""
    try:
        known = GuessWsdlType(kind)
    except KeyError:
        return None
    if not (isinstance(known, type) and issubclass(known, DataObject)):
        return None
    return {info.name: _declared(info.type) for info in known._GetPropertyList()}  # noqa: SLF001 - public there


def _declared(kind: Any) -> tuple[str | None, bool]:
    many = issubclass(kind, list)
    item = kind.Item if many else kind
    return (item._wsdlName if issubclass(item, DataObject) else None), many  # noqa: SLF001 - public there
