"""By which name the audit knows who runs a command."""

import base64
import json
import os
import pwd
from pathlib import Path

import nkeys
import pytest

from vsphere_functions.hosts.nats_user import who
from vsphere_functions.runtime.settings import Nats, Settings

SEED = nkeys.encode_seed(bytes(range(32)), nkeys.PREFIX_BYTE_USER)
KEY = nkeys.from_seed(bytearray(SEED)).public_key.decode()


def creds(folder: Path) -> Path:
    """A credentials file as `nsc` writes it; nobody checks its signature here."""
    claims = base64.urlsafe_b64encode(json.dumps({"sub": KEY, "name": "alice"}).encode()).decode().rstrip("=")
    file = folder / "user.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\neyJ0.{claims}.c2ln\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{SEED.decode()}\n------END USER NKEY SEED------\n"
    )
    return file


def nkey(folder: Path) -> Path:
    file = folder / "user.nk"
    file.write_bytes(SEED + b"\n")
    return file


@pytest.mark.parametrize("login", ["nobody", "user", "nkey", "creds"])
def test_the_system_and_nats_name_their_user_each(tmp_path: Path, login: str) -> None:
    section, known = {
        "nobody": (Nats(), None),
        "user": (Nats(user="operator"), "operator"),
        "nkey": (Nats(nkey_seed_file=nkey(tmp_path)), KEY),
        "creds": (Nats(creds=creds(tmp_path)), KEY),
    }[login]
    assert who(Settings(nats=section)) == {"os_user": pwd.getpwuid(os.getuid()).pw_name, "nats_user": known}
