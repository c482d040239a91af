"""What fuzzing starts from: a good message of each kind, and pieces that readers look for."""

import json
import random
from collections.abc import Iterator

from events.requests import FULL, LINK, LOGIN, MINIMAL, MORE, UUID
from fuzz.targets import INSTANCE, NAMES, VCENTER
from vsphere_functions.vsphere.claims_file import Claim
from vsphere_functions.vsphere.identity import Mark
from vsphere_functions.vsphere.metadata import Metadata
from vsphere_functions.vsphere.state import State

_EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/p",
    "type": "io.vspherefunctions.create_machine.request.v1",
    "time": "2026-11-29T12:00:00Z",
    "expirytime": "2026-11-29T12:00:00Z",
    "data": MINIMAL["create_machine"],
}
_STRUCTURED = json.dumps(_EVENT).encode()
_BINARY = "\n".join(f"ce-{name}: {value}" for name, value in _EVENT.items() if name != "data").encode()
_DATA = b'{"secrets": {"userData": "#cloud-config"}}'
_REQUESTS = [
    bytes([at]) + json.dumps(given).encode()
    for at, name in enumerate(NAMES)
    for given in (MINIMAL[name], MINIMAL[name] | MORE[name], MINIMAL[name] | {"secrets": LOGIN})
]
_STATE = State("clone", VCENTER, INSTANCE, "vm-1", UUID, "task-1", '[{"vmdkPath": "[ds] a.vmdk"}]')
_MESSAGES = [
    b"Content-Type: application/cloudevents+json\n\n" + _STRUCTURED,
    b"Content-Type: application/cloudevents-batch+json\n\n[" + _STRUCTURED + b"]",
    _BINARY + b"\nContent-Type: application/json\n\n" + _DATA,
    b"\n\n" + _STRUCTURED,
]

SEEDS: dict[str, list[bytes]] = {
    "nats": _MESSAGES,
    "http": _MESSAGES,
    "structured": [_STRUCTURED, _STRUCTURED.replace(b'"data":', b'"data_base64": "e30=", "x":')],
    "models": _REQUESTS,
    "dispatched": _REQUESTS,
    "identities": [
        f"vsphere://eu-1/{UUID}".encode(),
        f"vsphere://{UUID}".encode(),
        b"vsphere.result.default.create_machine.req-1",
        b"io.vspherefunctions.create_machine.request.v1",
        b"[ds] a/b.vmdk",
        LINK.encode(),
    ],
    "remembered": [
        str(_STATE).encode(),
        str(Mark("a/b", "w1", INSTANCE, UUID, UUID, "0" * 64)).encode(),
        Metadata(1024, {"k": "dg=="}, "2026-11-29T12:00:00Z", "0" * 32).render(),
        Claim("o", 1024, "d", "2026-11-29T12:00:00+00:00").render(),
    ],
    "configured": [
        b'[vcenters.default]\nurl = "https://vc.example/sdk"\nuser = "u"\n',
        b'[secrets.lab]\nuser = "u"\n[limits]\nattempts = 3\ninline_hosts = ["vc.example"]\n[nats]\n[worker]\n',
        b'[stores.a]\ndatacenter = "DC0"\npath = "[ds] v"\ninstallation = "' + INSTANCE.encode() + b'"\n',
    ],
    "bootstrap": [
        b"\0#cloud-config\nusers: []\n",
        b"\0#!/bin/sh\necho <<MACHINE_NAME>>\n",
        b"\0MIME-Version: 1.0\n\n",
        b'\1{"ignition": {"version": "3.0.0"}}',
    ],
    "buried": [*_MESSAGES, _BINARY + b"\nvsphere-reason: x\nNats-Msg-Id: a\nAuthorization: x\n\n" + _DATA],
}

PIECES = [
    *(
        b'"',
        b"{",
        b"[",
        b"\\u",
        b"\\ud800",
        b"null",
        b"1e999",
        b"-1",
        b"\x00",
        b"\x1b[2J",
        b"\xe2\x80\xae",
        b"%0a",
    ),
    *(b"../", b"%2e%2e/", b"*", b">", b".", b"\n", b"\r\n", b"<<MACHINE_NAME>>", b"NaN", b"true", b"[" * 100),
    *(json.dumps(name).encode() for name in (*FULL, *LOGIN, "providerSpec", "providerID", "lastKnownState")),
]


def mutants(seed: int, start: list[bytes], count: int) -> Iterator[bytes]:
    """Change good messages a little at random places: the same seed gives the same ones."""
    drawn = random.Random(seed)
    for _ in range(count):
        made = bytearray(drawn.choice(start))
        for _ in range(drawn.choice((1, 1, 2, 4, 8))):
            at = drawn.randrange(len(made) + 1)
            cut = drawn.choice((0, 0, 1, 4, 16))
            put = drawn.choice((b"", drawn.choice(PIECES), drawn.randbytes(drawn.randrange(4))))
            made[at : at + cut] = put
        yield bytes(made)
