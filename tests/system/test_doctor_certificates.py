"""`doctor` and certificates that end."""

import re
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.doctor import FAULT, FINE, WARNING, Servers, set_up, settings
from vsphere_functions.hosts.doctor import examine
from vsphere_functions.hosts.findings import Severity
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.certificate import certificate_of
from vsphere_functions.vsphere.session import Endpoint


@pytest.fixture(scope="module")
def ready(shared_vcenter: SimulatedVCenter) -> Iterator[Servers]:
    with set_up(shared_vcenter) as servers:
        yield servers


@pytest.fixture
def ending(ready: Servers, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A server with the vCenter's certificate, changed so that it ends in so many days."""
    _, vcenter = ready
    der = ssl.PEM_cert_to_DER_cert(vcenter.ca_file.read_text())
    dates = re.findall(rb"\x17\x0d(\d{12}Z)", der)
    when = datetime.now(UTC) + timedelta(days=request.param)
    start = datetime.now(UTC) - timedelta(days=9)
    changed = der.replace(dates[1], when.strftime("%y%m%d%H%M%SZ").encode())
    changed = changed.replace(dates[0], start.strftime("%y%m%d%H%M%SZ").encode())
    (tmp_path / "cert.pem").write_text(ssl.DER_cert_to_PEM_cert(changed))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", vcenter.key_file)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=partial(server.serve_forever, 0.01))
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/sdk"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("ending", "severity", "says"),
    [(5, WARNING, "it ends on"), (-5, FAULT, "it has expired"), (200, FINE, "it ends on")],
    indirect=["ending"],
)
def test_a_certificate_that_ends_is_named(ready: Servers, ending: str, severity: Severity, says: str) -> None:
    found = {one.part: one for one in examine(settings(*ready, vcenter={"url": ending}))}
    assert found["vcenter default certificate"].severity is severity
    assert says in found["vcenter default certificate"].says
    assert len(certificate_of(Endpoint(ending)).thumbprint) == 64
