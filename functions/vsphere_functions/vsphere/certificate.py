"""What certificate a vCenter shows, whether or not it is trusted."""

import socket
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import urlsplit

from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.vsphere.transport import Endpoint

_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate: its SHA-256 thumbprint and when it ends; None where that could not be read."""

    thumbprint: str
    ends: datetime | None


def certificate_of(endpoint: Endpoint) -> Certificate:
    """Shake hands and send nothing; Unavailable when that does not come about."""
    try:
        der = _shown(endpoint, _careless())
    except OSError as error:
        raise CallError(Code.UNAVAILABLE, f"no TLS with it: {error.strerror or error}") from None
    return Certificate(sha256(der).hexdigest(), _ends(endpoint, der))


def _ends(endpoint: Endpoint, der: bytes) -> datetime | None:
    """Read the end of a certificate: the library tells it of one that is verified, so it is trusted by itself."""
    context = _careless()
    context.load_verify_locations(cadata=der)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    told: dict[str, str] = {}
    try:
        _shown(endpoint, context, told)
    except ssl.SSLCertVerificationError as refused:
        return datetime.min.replace(tzinfo=UTC) if "expired" in refused.verify_message else None
    except OSError:
        return None
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(told["notAfter"]), UTC)


def _careless() -> ssl.SSLContext:
    """Make a context that looks at no certificate: to see it, not to trust it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _shown(endpoint: Endpoint, context: ssl.SSLContext, told: dict[str, str] | None = None) -> bytes:
    parts = urlsplit(endpoint.url)
    address = (parts.hostname or "", parts.port or 443)
    with (
        socket.create_connection(address, timeout=_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=parts.hostname) as connection,
    ):
        if told is not None:
            told.update(notAfter=str((connection.getpeercert() or {})["notAfter"]))
        return connection.getpeercert(binary_form=True) or b""
