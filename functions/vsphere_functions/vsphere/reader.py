"""The fast reader: property collection as hand-written SOAP, parsed straight into plain values.

Ten thousand VMs take a third of the time and a fifth of the CPU that pyVmomi's own parser takes, and one
unknown type or empty enum in an object does not spoil the whole answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any
from xml.sax.saxutils import escape, unescape

from lxml import etree

from vsphere_functions.vsphere.faults import Fault, NoAnswer
from vsphere_functions.vsphere.plain import local, value
from vsphere_functions.vsphere.ref import Ref

Row = dict[str, Any]
"""Property path → plain value; an unset property is absent."""

PAGE = 500
_TOKEN = re.compile(rb"<token>([^<]+)</token>")
_SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
_ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    f'<soapenv:Envelope xmlns:soapenv="{_SOAP}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">'
    '<soapenv:Body><{name} xmlns="urn:vim25">{this}{inner}</{name}></soapenv:Body></soapenv:Envelope>'
)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a collection; `token` asks for the next one."""

    rows: dict[Ref, Row]
    token: str | None


def request(this: Ref, method: str, inner: str = "") -> bytes:
    """Write a SOAP request; `inner` is XML already."""
    return _ENVELOPE.format(name=method, this=_ref("_this", this), inner=inner).encode()


def retrieve(collector: Ref, refs: Iterable[Ref], paths: Mapping[str, Sequence[str]]) -> bytes:
    """Ask for the properties of the given objects; one that is gone is left out of the answer."""
    objects = "".join(f"<objectSet>{_ref('obj', ref)}<skip>false</skip></objectSet>" for ref in refs)
    spec = f"{_prop_sets(paths)}{objects}<reportMissingObjectsInResults>true</reportMissingObjectsInResults>"
    return _retrieve(collector, spec)


def retrieve_view(collector: Ref, view: Ref, paths: Mapping[str, Sequence[str]]) -> bytes:
    """Ask for the properties of all objects in a container view, and for the view itself."""
    return retrieve_listed(collector, view, "view", {**paths, view.type: ("container",)})


def retrieve_listed(collector: Ref, ref: Ref, path: str, paths: Mapping[str, Sequence[str]]) -> bytes:
    """Ask for the properties of the objects that a property of another lists, and of that one.

    Its own row proves that it stood: without it, nothing found would be told from nothing there.
    """
    step = f"<type>{ref.type}</type><path>{path}</path><skip>false</skip>"
    traversal = f'<selectSet xsi:type="TraversalSpec">{step}</selectSet>'
    objects = f"<objectSet>{_ref('obj', ref)}<skip>false</skip>{traversal}</objectSet>"
    return _retrieve(collector, _prop_sets(paths) + objects)


def more(collector: Ref, token: str) -> bytes:
    """Ask for the next page."""
    return request(collector, "ContinueRetrievePropertiesEx", f"<token>{escape(token)}</token>")


def token_in(body: bytes) -> str | None:
    """Guess the token of the next page without reading this one: it comes first, before any object."""
    found = _TOKEN.search(body, 0, max(body.find(b"<objects"), 0))
    return unescape(found[1].decode()) if found else None


def read_page(body: bytes) -> Page:
    """Read one page; Fault for a lost session, a missing permission or an unknown property in it."""
    rows: dict[Ref, Row] = {}
    token = None
    results = returned(body)
    try:
        for node in (node for result in results for node in result):
            if local(node.tag) == "token":
                token = node.text
            else:
                _read_object(node, rows)
    except (LookupError, ValueError) as odd:
        raise NoAnswer("vCenter's answer to a property read cannot be understood", sent=True) from odd
    return Page(rows, token)


def returned(body: bytes) -> Iterator[etree._Element]:
    """Return the elements of an answer, eagerly checked; Fault for a fault, NoAnswer for what is no SOAP."""
    # An answer is the server's: no entity is resolved, nothing is fetched; a page may be big.
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError as broken:
        raise NoAnswer("vCenter answers with something that is no XML", sent=True) from broken
    content = root.find(f"{{{_SOAP}}}Body")
    if content is None or len(content) == 0:
        raise NoAnswer("vCenter answers with something that is no SOAP message", sent=True)
    if local(content[0].tag) == "Fault":
        raise _fault(content[0])
    return iter(content[0])


def localized(error: Mapping[str, Any]) -> Fault:
    """Turn the plain value of a LocalizedMethodFault (a task's error) into a Fault."""
    fields = dict(error.get("fault") or {})
    return Fault(fields.pop("_type", "MethodFault"), error.get("localizedMessage") or "", fields)


def _fault(node: etree._Element) -> Fault:
    """Read a SOAP fault; the detail's type, or its tag less "Fault", names it."""
    detail = node.find("detail")
    message = node.findtext("faultstring") or ""
    if detail is None or len(detail) == 0:
        return Fault("RuntimeFault", message)
    fields = value(detail[0], local(detail[0].tag).removesuffix("Fault"))
    return localized({"fault": fields if isinstance(fields, dict) else {}, "localizedMessage": message})


def _read_object(node: etree._Element, rows: dict[Ref, Row]) -> None:
    row: Row = {}
    ref: Ref | None = None
    for child in node:
        match local(child.tag):
            case "obj":
                ref = value(child)
            case "propSet" if len(child) > 1:  # a continued page gives unset ones too, without a value
                name, held = intern(child[0].text or ""), value(child[1])  # one text for thousands of rows
                row[name] = held.get("value") if _is_option(name, held) else held
            case "missingSet" if ref is not None and not _tolerated(child, ref):
                return
    if ref is not None:
        rows.setdefault(ref, {}).update(row)


def _is_option(path: str, held: Any) -> bool:
    """Say whether a keyed path gave the option; some servers give its value at once."""
    return "[" in path and isinstance(held, dict) and held.get("_type") == "OptionValue"


def _tolerated(node: etree._Element, ref: Ref) -> bool:
    """Judge a property that was not given: False when its object has vanished, Fault when absence proves nothing."""
    path = node[0].text or ""
    fault = localized(value(node[1], "LocalizedMethodFault"))
    if fault.is_a("ManagedObjectNotFound"):
        return False
    if fault.is_a("InvalidProperty") and "[" in path:
        return True  # no such key
    fault.fields.update(object=ref, path=path)
    raise fault


def _retrieve(collector: Ref, spec: str) -> bytes:
    options = f"<options><maxObjects>{PAGE}</maxObjects></options>"
    return request(collector, "RetrievePropertiesEx", f"<specSet>{spec}</specSet>{options}")


def _prop_sets(paths: Mapping[str, Sequence[str]]) -> str:
    return "".join(
        f"<propSet><type>{escape(kind)}</type><all>false</all>"
        + "".join(f"<pathSet>{escape(path)}</pathSet>" for path in dict.fromkeys(names))
        + "</propSet>"
        for kind, names in paths.items()
    )


def _ref(tag: str, ref: Ref) -> str:
    kind = escape(ref.type, {'"': "&quot;"})
    return f'<{tag} type="{kind}">{escape(ref.id)}</{tag}>'
