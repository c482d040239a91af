"""The user data of one machine: placeholders filled in, ssh keys added."""

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import quote_plus

from vsphere_functions.bootstrap.encode import flow

_NAME = re.compile("<<MACHINE_NAME>>|%3[Cc]%3[Cc]MACHINE_NAME%3[Ee]%3[Ee]")
_HAS_KEYS = re.compile(r"ssh_authorized_keys[\"']?\s*:")
_TOP_KEY = re.compile(r"[A-Za-z_][\w-]*:(\s|$)")
_KNOWN = ("#!", "#cloud-config", "#cloud-boothook", "#part-handler", "## template: jinja")
"""First words by which cloud-init tells a part of an archive (its `type_from_starts_with`)."""


def personal(user_data: str, machine: str) -> str:
    """Put the machine's name where its placeholder stands, plain or url-encoded.

    Gardener's controller does so too, and fills in the bootstrap token; what it has done is not there any more.
    """
    return _NAME.sub(lambda found: machine if found[0][0] == "<" else quote_plus(machine), user_data)


def keys_refused(user_data: str | None, keys: Sequence[str]) -> str | None:
    """Say why the keys cannot be added, or nothing."""
    if not keys or not user_data:
        return None
    if _HAS_KEYS.search(user_data):
        return "the user data has ssh_authorized_keys already; give the keys in one place"
    if not user_data.startswith(_KNOWN) or user_data.startswith("#cloud-config-archive"):
        return "keys cannot be added to this kind of user data: it is no script and no #cloud-config document"
    return None


def with_keys(user_data: str | None, keys: Sequence[str]) -> str | None:
    """Return user data that also authorises the keys for cloud-init's default user.

    A plain cloud-config document gets one more key at its end. Anything else, such as a script, becomes a part
    of an archive, beside a small document with the keys (cloud-init, user data formats).
    """
    if not keys:
        return user_data
    added = f"ssh_authorized_keys: {flow(list(keys))}\n"
    if not user_data:
        return f"#cloud-config\n{added}"
    if _is_plain_document(user_data):
        return user_data + ("" if user_data.endswith("\n") else "\n") + added
    parts = flow([f"#cloud-config\n{added}", user_data])
    return f"#cloud-config-archive\n{parts}\n"


def beside(boothook: str, user_data: str | None) -> str:
    """Return a MIME archive of a boothook and of user data, which keeps its kind whatever it is.

    User data that is an archive itself becomes a part as it stands. Any other kind is found out by its first
    words, as it is outside of an archive (cloud-init, `user_data.py`).
    """
    parts = [_part("cloud-boothook", boothook)]
    if user_data:
        is_archive = "mime-version:" in user_data[:4096].lower()
        parts.append(user_data if is_archive else _part("plain", user_data))
    mark = "-" + sha256("".join(parts).encode()).hexdigest()[:32]
    body = "".join(f"--{mark}\n{part}\n" for part in parts)
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{mark}"\n\n{body}--{mark}--\n'


def _part(kind: str, text: str) -> str:
    """Write one part of an archive; without an encoding only ASCII comes through, and no carriage return at its end."""
    if text.isascii() and "\r" not in text:
        return f"Content-Type: text/{kind}\n\n{text}"
    encoded = b64encode(text.encode()).decode()
    return f'Content-Type: text/{kind}; charset="utf-8"\nContent-Transfer-Encoding: base64\n\n{encoded}'


def _is_plain_document(text: str) -> bool:
    """Say whether a text is one cloud-config mapping in block style, to which a line can be added."""
    lines = text.splitlines()
    if not re.fullmatch(r"#cloud-config\s*", lines[0]):
        return False
    told = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    marks = [at for at, line in enumerate(told) if re.match(r"(---|\.\.\.)(\s|$)", line)]
    if marks == [0] and told[0].strip() == "---":
        told, marks = told[1:], []
    return not marks and (not told or _TOP_KEY.match(told[0]) is not None)
