"""Configuration files for nats-server: accounts and permissions, TLS, encryption at rest, a leaf node."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import nkeys

from vsphere_functions.hosts.nats_permissions import ACCOUNT, DOMAIN, OVER_LEAF, User, at_site, users

HOME = "/etc/nats"
"""Where the files lie on the server, unless something else is said."""

_MADE = "# Written by `vsphere-functions nats-config`; changes to this file are lost.\n"
_SERVER = """# A server for vsphere-functions: every user has a key; connections are encrypted, and so is what
# lies on disk.
# Written once by `vsphere-functions nats-config`; it is yours from then on.
listen: 0.0.0.0:4222
http: 127.0.0.1:8222

include accounts.conf
include keys/jetstream.conf

tls {
  cert_file: %(home)s/tls/server.crt
  key_file: %(home)s/tls/server.key
  min_version: "1.2"
}

# Requests can hold inline secrets until they are done, and dead letters for 30 days.
jetstream {
  domain: %(domain)s
  store_dir: /var/lib/nats
  cipher: chacha
  key: $JETSTREAM_KEY
}

# Servers beside distant vCenters connect here (leaf.conf).
leafnodes {
  listen: 0.0.0.0:7422
  tls {
    cert_file: %(home)s/tls/server.crt
    key_file: %(home)s/tls/server.key
    min_version: "1.2"
  }
}
"""
_LEAF = """# A server beside a distant vCenter, for the workers there: they connect to it, it connects to the
# server that keeps the streams, and comes back by itself when the line between is cut.
# Written once by `vsphere-functions nats-config`; it is yours from then on.
listen: 127.0.0.1:4222

include leaf-accounts.conf
include keys/leaf.conf

leafnodes {
  remotes: [
    {
      urls: ["tls://nats.example:7422"]
      account: %(account)s
      nkey: $LEAF_SEED
      tls { ca_file: %(home)s/tls/ca.crt }
    }
  ]
}
"""


def once(home: str = HOME) -> dict[str, str]:
    """Give the files that are the operator's once they are there, by name."""
    given = {"home": home, "domain": DOMAIN, "account": ACCOUNT}
    return {"server.conf": _SERVER % given, "leaf.conf": _LEAF % given}


def accounts(labels: Iterable[str], public: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the files with the users of these vCenters, by name.

    `public` are their public keys by user; without it the server takes them from its environment.
    """
    known = users(labels)
    keys = public or {name: f"${variable(name)}" for name in ("system", *(one.name for one in known))}
    system = f"  SYS {{\n    users: [{{nkey: {keys['system']}}}]\n  }}\n"
    hub = _account(known, keys, "    jetstream: enabled")
    site = _account([at_site(one) for one in known if one.name == "worker"], keys, *_mappings())
    return {
        "accounts.conf": f"{_MADE}system_account: SYS\naccounts {{\n{system}{hub}}}\n",
        "leaf-accounts.conf": f"{_MADE}accounts {{\n{site}}}\n",
    }


def write(folder: Path, labels: Iterable[str], home: str = HOME) -> list[Path]:
    """Write the configuration and the keys that are missing; all files of it.

    Seeds and the key of the disk's cipher are made once and never again: whoever has a copy goes on with it.
    """
    labels = tuple(labels)
    folder.mkdir(parents=True, exist_ok=True)
    keys = folder / "keys"
    keys.mkdir(mode=0o700, exist_ok=True)
    names = ["system", *(one.name for one in users(labels))]
    public = {name: _public(keys / f"{name}.nk") for name in names}
    _kept(keys / "leaf.conf", f'LEAF_SEED: "{(keys / "leaf.nk").read_text()}"\n')
    _kept(keys / "jetstream.conf", f'JETSTREAM_KEY: "{os.urandom(32).hex()}"\n')
    texts = accounts(labels, public)
    texts |= {name: text for name, text in once(home).items() if not (folder / name).exists()}
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def variable(name: str) -> str:
    """Name the variable that holds a user's public key."""
    return f"{re.sub(r'[^a-z0-9]', '_', name).upper()}_NKEY"


def _account(known: Iterable[User], keys: Mapping[str, str], *lines: str) -> str:
    told = "\n".join("\n".join(_user(one, keys[one.name])) for one in known)
    return "\n".join([f"  {ACCOUNT} {{", *lines, "    users: [", told, "    ]", "  }", ""])


def _mappings() -> Iterator[str]:
    yield "    # The API of JetStream and its buckets cross a leaf node only under the name of their domain."
    yield "    mappings: {"
    yield from (
        f"      {json.dumps(one + '>')}: {json.dumps(other + '>')}" for one, other in OVER_LEAF.items()
    )
    yield "    }"


def _user(one: User, key: str) -> Iterator[str]:
    yield f"      # {one.name}: {one.does}"
    yield f"      {{nkey: {key}, permissions: {{"
    for what, subjects in (("publish", one.publish), ("subscribe", one.subscribe)):
        yield f"        {what}: ["
        yield from (f"          {json.dumps(subject)}" for subject in subjects)
        yield "        ]"
    yield "      }}"


def _public(file: Path) -> str:
    """Give the public key of a seed, which is made when it is not there."""
    made = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode()
    public: bytes = nkeys.from_seed(bytearray(_kept(file, made).encode())).public_key
    return public.decode()


def _kept(file: Path, text: str) -> str:
    """Write a file that only its owner may read, unless it is there; what it holds."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(text)
    except FileExistsError:
        return file.read_text("utf-8").strip()
    return text
