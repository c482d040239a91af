"""Whom we talk to: certificates of a vCenter, checked before a byte is sent."""

import re
import ssl
from hashlib import sha256
from pathlib import Path

from vsphere_events.code import Code
from vsphere_events.error import CallError

_SHA256 = re.compile(r"[0-9a-f]{64}")


def context(ca_file: Path | None, *, verify: bool) -> ssl.SSLContext:
    """Make the context of one endpoint: the system's authorities or those of `ca_file`, and the host's name.

    `verify=False` is for a pinned certificate, which `pinned` checks, and for an endpoint that is insecure on purpose.
    """
    try:
        made = ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except OSError as unreadable:
        raise CallError(
            Code.INVALID_ARGUMENT, f"the CA file {ca_file} cannot be used: {unreadable}"
        ) from unreadable
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def thumbprint(text: str) -> str:
    """Bring a SHA-256 thumbprint to lower-case digits without colons; InvalidArgument for anything else."""
    digits = text.replace(":", "").strip().lower()
    if not _SHA256.fullmatch(digits):
        raise CallError(
            Code.INVALID_ARGUMENT, "a thumbprint is the SHA-256 of the certificate, 64 hexadecimal digits"
        )
    return digits


def pinned(connection: ssl.SSLSocket, digits: str) -> bool:
    """Say whether the peer's certificate is the pinned one."""
    certificate = connection.getpeercert(binary_form=True)
    return certificate is not None and sha256(certificate).hexdigest() == digits
