"""What is fuzzed: each target takes any bytes, and lets nothing out but the refusals that its reader promises."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

from nats.aio.msg import Msg
from pydantic import SecretStr

from events.requests import FULL
from vsphere_events import json_text
from vsphere_events.cloud_event import CloudEvent
from vsphere_events.code import Code
from vsphere_events.envelope import (
    Batch,
    Mode,
    Received,
    from_http,
    from_json,
    from_nats,
    to_http,
    to_json,
    to_nats,
)
from vsphere_events.error import CallError
from vsphere_events.functions import FUNCTIONS
from vsphere_events.machine import CreateMachineRequest
from vsphere_events.provider_id import ProviderID
from vsphere_events.results import subject_of
from vsphere_events.subjects import Kind, Subject, event_type, parse_event_type, request_token
from vsphere_functions.bootstrap.boot import Boot
from vsphere_functions.hosts.dead_letters import Letter
from vsphere_functions.runtime.dispatch import Address, dispatch
from vsphere_functions.runtime.masked import masked
from vsphere_functions.runtime.settings import Secret, Settings, SettingsError, Store, VCenter
from vsphere_functions.runtime.settings_load import load
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.destroy import detached
from vsphere_functions.vsphere.files import DatastorePath
from vsphere_functions.vsphere.identity import Mark
from vsphere_functions.vsphere.metadata import Metadata
from vsphere_functions.vsphere.state import State

T = TypeVar("T")

VCENTER, INSTANCE = "dbed6e0c-bd88-4ef6-b594-21283e1c677f", "2687523a-1041-5340-9194-ea0f7f1bdf3b"
NAMES = tuple(FUNCTIONS)
SECRET = "canary-of-the-fuzzer"
SETTINGS = Settings(
    vcenters={"default": VCenter(url="https://vc.example/sdk", user="u", password=SecretStr(SECRET))},
    secrets={"lab": Secret(user="u", password=SecretStr(SECRET), user_data=SecretStr(SECRET))},
    stores={"default": Store(datacenter="DC0", path="[ds] vols", installation=INSTANCE)},
)


class BrokenError(AssertionError):
    """What must not be; the bytes that show it are the caller's."""


def holds(what: str, *, true: bool) -> None:
    """Demand something, also where asserts are switched off."""
    if not true:
        raise BrokenError(what)


def refused(read: Callable[..., T], *given: Any) -> T | None:
    """Read; None for a refusal, which has to be InvalidArgument with a reason."""
    try:
        return read(*given)
    except CallError as error:
        holds(f"refused as {error.code}", true=error.code is Code.INVALID_ARGUMENT and bool(error.message))
        return None


def message(data: bytes) -> tuple[dict[str, str], bytes]:
    """Take a message apart: lines of headers, an empty line, a body."""
    head, _, body = data.partition(b"\n\n")
    pairs = (line.partition(b":")[::2] for line in head.split(b"\n"))
    return {a.decode("latin-1").strip(): b.decode("utf-8", "replace").strip() for a, b in pairs}, body


def from_the_wire(received: Received | Batch | None) -> Iterator[CloudEvent]:
    """Give the events of a message."""
    if isinstance(received, Batch):
        yield from received.events
    elif received is not None:
        yield received.event


def chosen(data: bytes) -> tuple[str, bytes]:
    """Take the first byte for a function."""
    return NAMES[(data[:1] or b"\0")[0] % len(NAMES)], data[1:]


def nats(data: bytes) -> None:
    """A message from NATS is an event, a batch, or refused; what was read can be written, and read again."""
    for event in from_the_wire(refused(from_nats, *message(data))):
        again = from_nats(*to_nats(event, Mode.STRUCTURED))
        holds("a structured event came back another", true=again == Received(event, Mode.STRUCTURED))
        from_nats(*to_nats(event, Mode.BINARY))


def http(data: bytes) -> None:
    """So is a request over HTTP, whose headers its server has read as Latin-1."""
    headers, body = message(data)
    mangled = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    for event in from_the_wire(refused(from_http, mangled, body)):
        for mode in Mode:
            from_http(*to_http(event, mode))


def structured(data: bytes) -> None:
    """The JSON event format by itself."""
    event = refused(from_json, data)
    holds("an event came back another", true=event is None or from_json(to_json(event)) == event)


def models(data: bytes) -> None:
    """The data of requests and results: taken or refused, and the same again after a round."""
    name, rest = chosen(data)
    value = refused(json_text.loads, rest)
    for model in (FUNCTIONS[name].request, FUNCTIONS[name].result):
        made = refused(model.parse, value)
        if made is not None and getattr(made, "secrets", None) is None:
            again = model.parse(json_text.loads(json_text.dumps(made.wire())))
            holds(f"{model.__name__} came back another", true=again == made)


def dispatched(data: bytes) -> None:
    """A request up to its call: it goes to the configured vCenter, or with its own login nowhere; no secret is said."""
    name, rest = chosen(data)
    value = refused(json_text.loads, rest)
    if not isinstance(value, dict) or SECRET.encode() in rest:
        return
    secrets = value.get("secrets")
    if isinstance(secrets, dict):
        value["secrets"] = secrets | dict.fromkeys(secrets.keys() & {"vspherePassword", "userData"}, SECRET)
    event = CloudEvent("1", "/p", event_type(name, Kind.REQUEST), value)
    subject_of(name, event, {})
    try:
        call = dispatch(Address(FUNCTIONS[name], "default", event), SETTINGS)
    except CallError as error:
        holds("a refusal shows a secret", true=SECRET not in f"{error}{error.details}")
        return
    holds("a request reaches another host", true=call.host == "vc.example:443")
    holds("a call shows a secret", true=SECRET not in f"{call}")


def identities(data: bytes) -> None:
    """What names something: read and written as it was, or refused; never a way out of a subject or a folder."""
    text = data.decode("utf-8", "surrogatepass") if data.isascii() else data.decode("utf-8", "replace")
    provider_id = refused(ProviderID.parse, text)
    if provider_id is not None:
        holds("a providerID came back another", true=ProviderID.parse(str(provider_id)) == provider_id)
    subject = refused(Subject.parse, text)
    holds("a subject came back another", true=subject is None or str(subject) == text)
    refused(parse_event_type, text)
    token = request_token(text)
    holds(
        "a token is no part of a subject",
        true=token.replace("-", "").replace("_", "").isalnum() or not token.strip("-_"),
    )
    try:
        path = DatastorePath.parse(text)
    except ValueError:
        return
    holds("a path leads out of its folder", true=not {".", "..", ""} & set(path.parts))


def remembered(data: bytes) -> None:
    """What lies about from earlier: states and lists of detached disks, marks, metadata and claims of volumes."""
    text = data.decode("utf-8", "replace")
    state = State.of(text, VCENTER, INSTANCE)
    holds("a state came back another", true=State.of(str(state), VCENTER, INSTANCE) == state)
    json_text.dumps([*detached(state.detached), *detached(text)])
    mark, claim = Mark.parse(text), Claim.parse(data)
    holds("a mark came back another", true=mark is None or Mark.parse(str(mark)) == mark)
    holds("a claim came back another", true=claim is None or Claim.parse(claim.render()) == claim)
    try:
        metadata = Metadata.parse(data)
    except ValueError:
        return
    holds("metadata came back others", true=Metadata.parse(metadata.render()) == metadata)


def configured(data: bytes) -> None:
    """A settings file, over the settings of a file with a password."""
    file = Path(gettempdir()) / f"fuzzed-{hash(data) & 7}.toml"
    file.write_bytes(data)
    try:
        load(file, {"VSPHERE_FUNCTIONS_VCENTERS__DEFAULT__PASSWORD": SECRET})
    except SettingsError as error:
        holds("an error of the settings shows a password", true=SECRET not in str(error))


def bootstrap(data: bytes) -> None:
    """User data with all that is added to it, for either kind of guest."""
    by = ("cloud-init", "ignition")[(data[:1] or b"\0")[0] % 2]
    spec = FULL | {"bootstrap": by, "sshKeys": ["ssh-ed25519 AAAA x"]}
    spec |= {"volumes": [{"id": "a", "mountPath": "/a"}]}
    request = CreateMachineRequest.parse({"machineName": "w1", "providerSpec": spec})
    boot = Boot.of("w1", INSTANCE, request.provider_spec, data[1:].decode("utf-8", "replace"))
    if not boot.wrong:
        known = boot.mounting([INSTANCE])
        json_text.dumps({**known.guestinfo([]), **known.properties([])})


def buried(data: bytes) -> None:
    """What an operator is shown of a dead letter: printable, and no value that stands under a secret's name."""
    headers, body = message(data)
    value = refused(json_text.loads, body)
    json.dumps(masked({"secrets": value}))
    kept = {
        "Nats-Sequence": "1",
        "Nats-Subject": "vsphere.dead.default.create_machine",
        "Nats-Time-Stamp": "now",
    }
    letter = Letter.read(Msg(None, subject="_INBOX.x", data=body, headers=headers | kept))  # type: ignore[arg-type]  # its client is not asked
    said = json.dumps(letter.shown())
    holds("what is shown moves a cursor", true=said.isprintable())


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        nats,
        http,
        structured,
        models,
        dispatched,
        identities,
        remembered,
        configured,
        bootstrap,
        buried,
    )
}
