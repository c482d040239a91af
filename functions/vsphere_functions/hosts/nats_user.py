"""Who runs a command, as far as this process can know."""

import base64
import json
import os
import pwd
import re
from pathlib import Path

import nkeys

from vsphere_functions.hosts.nats_connection import nats_of
from vsphere_functions.runtime.settings import Nats, Settings

_JWT = re.compile(r"BEGIN NATS USER JWT-+\s+[\w-]+\.([\w-]+)\.")


def who(settings: Settings) -> dict[str, str | None]:
    """Name the user of the process, and that of NATS: by name, or by the public key that the server knows it by."""
    return {"os_user": _os_user(), "nats_user": _nats_user(nats_of(settings))}


def _os_user() -> str:
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container
        return str(number)


def _nats_user(section: Nats) -> str | None:
    if section.nkey_seed_file:
        public: bytes = nkeys.from_seed(bytearray(section.nkey_seed_file.read_bytes().strip())).public_key
        return public.decode()
    if section.creds:
        return _subject_of(section.creds)
    return section.user


def _subject_of(creds: Path) -> str | None:
    """Read the user's key from its token; what the token says else is between it and the server."""
    found = _JWT.search(creds.read_text())
    if found is None:
        return None
    claims = json.loads(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
    return str(claims["sub"])
