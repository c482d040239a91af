"""Method calls in pyVmomi's terms: requests written, answers read, no managed object that could call by itself."""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, cast
from xml.parsers.expat import ExpatError

from lxml import etree
from pyVmomi.SoapAdapter import SoapResponseDeserializer, SoapStubAdapterBase
from pyVmomi.VmomiSupport import CheckField, GuessWsdlMethod, GuessWsdlType, ManagedObject, versionMap

from vsphere_functions.vsphere.faults import Fault, NoAnswer
from vsphere_functions.vsphere.plain import local
from vsphere_functions.vsphere.ref import Ref


class Method:
    """A method of the API by its wire name (`CloneVM_Task`), with the arguments by pyVmomi's parameter names."""

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self._info = GuessWsdlMethod(name).info
        unknown = arguments.keys() - {parameter.name for parameter in self._info.params}
        if unknown:
            raise TypeError(f"{name} has no parameter {', '.join(sorted(unknown))}")
        self._values = [_live(arguments.get(parameter.name)) for parameter in self._info.params]
        for parameter, given in zip(self._info.params, self._values, strict=True):
            CheckField(parameter, given)

    def request(self, ref: Ref, version: str, context: Mapping[str, str] | None = None) -> bytes:
        """Write the request, with a context in its header; Fault when the version does not have the method."""
        try:
            write: Any = _Writer(version, context).SerializeRequest
            return cast("bytes", write(reference(ref), self._info, self._values))
        except GuessWsdlType("MethodNotFound") as unknown:
            raise Fault("MethodNotFound", f"{self.name} is newer than the vCenter") from unknown

    def result(self, body: bytes) -> Any:
        """Read the answer of a call that succeeded; NoAnswer when it is no answer to it."""
        if f"{self.name}Response".encode() not in body:
            raise NoAnswer(f"vCenter's answer is none to {self.name}", sent=True)
        try:
            # Without a stub, what comes back cannot call: no read goes round the door by an attribute access.
            # A file, since from bytes pyVmomi would take half an answer for a whole one.
            return _plain(SoapResponseDeserializer(None).Deserialize(BytesIO(body), self._info.result))
        except (ExpatError, AttributeError, KeyError, TypeError, ValueError) as odd:
            raise NoAnswer(f"vCenter's answer to {self.name} cannot be read", sent=True, final=True) from odd


class _Writer(SoapStubAdapterBase):
    """pyVmomi's serialiser without its connections."""

    def __init__(self, version: str, context: Mapping[str, str] | None) -> None:
        super().__init__(version)  # type: ignore[no-untyped-call]  # pyVmomi has no types there
        self.requestContext = context  # SerializeRequest reads it


def reference(ref: Ref) -> ManagedObject:
    """Return the managed object for use inside a data object; it has no stub, so it cannot call anything."""
    made: ManagedObject = GuessWsdlType(ref.type)(ref.id)
    return made


def newest_version(description: bytes) -> tuple[str, str]:
    """Choose from vimServiceVersions.xml the newest version that pyVmomi knows: its name there, its wire id."""
    try:
        root = etree.fromstring(description, etree.XMLParser(resolve_entities=False, no_network=True))
    except etree.XMLSyntaxError as broken:
        raise NoAnswer("vCenter does not say which API versions it speaks", sent=True) from broken
    for namespace in root.iter("namespace"):
        if namespace.findtext("name") == "urn:vim25":
            for version in namespace.iter("version"):
                known = versionMap.get(f"vim25/{version.text}")
                if known is not None:
                    return known, version.text or ""
    raise NoAnswer(f"vCenter speaks no API version that is known here ({local(root.tag)})", sent=True)


def _live(given: Any) -> Any:
    """Turn Refs, alone or in a list, into managed objects."""
    if isinstance(given, Ref):
        return reference(given)
    if isinstance(given, list | tuple):
        return [_live(one) for one in given]
    return given


def _plain(given: Any) -> Any:
    """Turn managed objects, alone or in a list, into Refs."""
    if isinstance(given, ManagedObject):
        return Ref(given._wsdlName, given._GetMoId())  # noqa: SLF001 - public there
    if isinstance(given, list):
        return [_plain(one) for one in given]
    return given
