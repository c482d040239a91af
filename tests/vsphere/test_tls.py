"""Whom the gateway talks to; on 127.0.0.2, since clients tend to forgive 127.0.0.1 everything."""

import ssl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from support.gateway import error_of
from vsphere_events.code import Code
from vsphere_events.error import CallError
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.vsphere.faults import outcome_unknown
from vsphere_functions.vsphere.session import Endpoint, Session
from vsphere_functions.vsphere.transport import Transport


@pytest.fixture(scope="module")
def elsewhere(vcsim_binary: Path) -> Iterator[SimulatedVCenter]:
    assert vcsim_binary.is_file()
    with SimulatedVCenter(host="127.0.0.2") as server:
        yield server


def thumbprint_of(vcenter: SimulatedVCenter) -> str:
    return sha256(ssl.PEM_cert_to_DER_cert(vcenter.ca_file.read_text())).hexdigest()


def connect_twice(vcenter: SimulatedVCenter, url: str | None = None, **trust: Any) -> list[str]:
    """Open two connections in turn in one process, over one session; say how each ended."""
    session = Session(Endpoint(url or vcenter.url, **trust), vcenter.username, vcenter.password)
    ends = [connect(session), connect(session)]
    session.close()
    return ends


def connect(session: Session) -> str:
    try:
        assert session.content["rootFolder"]
    except CallError as error:
        known = error.code is Code.UNAVAILABLE and not outcome_unknown(error)
        return error.message if known else repr(error)
    session._transport.close()
    session._service = session._login = None
    return "ok"


def test_the_right_authority_is_trusted(elsewhere: SimulatedVCenter) -> None:
    assert connect_twice(elsewhere, ca_file=elsewhere.ca_file) == ["ok", "ok"]


def test_the_system_does_not_trust_it(elsewhere: SimulatedVCenter) -> None:
    assert all("is not trusted" in end for end in connect_twice(elsewhere))


def test_another_authority_does_not_trust_it(
    elsewhere: SimulatedVCenter, shared_vcenter: SimulatedVCenter
) -> None:
    ends = connect_twice(elsewhere, ca_file=shared_vcenter.ca_file)
    assert all("is not trusted" in end for end in ends)


def test_a_right_certificate_under_another_name_is_not_trusted(shared_vcenter: SimulatedVCenter) -> None:
    """Linux takes 0.0.0.0 for 127.0.0.1; the certificate does not name it."""
    url = shared_vcenter.url.replace(shared_vcenter.host, "0.0.0.0")
    trust = {"ca_file": shared_vcenter.ca_file}
    assert all(
        "is not trusted" in end and "0.0.0.0" in end for end in connect_twice(shared_vcenter, url, **trust)
    )
    print_of = thumbprint_of(shared_vcenter)
    assert connect_twice(shared_vcenter, url, thumbprint=print_of) == ["ok", "ok"]


@pytest.mark.parametrize("spelling", ["plain", "colons", "upper"])
def test_a_pinned_certificate_is_trusted(elsewhere: SimulatedVCenter, spelling: str) -> None:
    print_of = thumbprint_of(elsewhere)
    pairs = ":".join(print_of[at : at + 2] for at in range(0, 64, 2))
    text = {"plain": print_of, "colons": pairs, "upper": pairs.upper()}[spelling]
    assert connect_twice(elsewhere, thumbprint=text) == ["ok", "ok"]


def test_another_certificate_than_the_pinned_one_is_refused_each_time(elsewhere: SimulatedVCenter) -> None:
    """The second connection too, and also where everything else would be let through."""
    elsewhere.control.reset_calls()
    for more in ({}, {"insecure": True}, {"ca_file": elsewhere.ca_file}):
        ends = connect_twice(elsewhere, thumbprint="ab" * 32, **more)
        assert all("another certificate than the pinned one" in end for end in ends)
    assert elsewhere.control.calls().total() == 0


def test_insecure_is_only_what_is_asked_for(elsewhere: SimulatedVCenter) -> None:
    assert connect_twice(elsewhere, insecure=True) == ["ok", "ok"]
    assert all("is not trusted" in end for end in connect_twice(elsewhere))


@pytest.mark.parametrize("text", ["ab" * 20, "zz" * 32, "sha256"])
def test_a_thumbprint_that_is_no_sha256_is_refused(text: str) -> None:
    error = error_of(Transport, Endpoint("https://vc.example/sdk", thumbprint=text))
    assert error.code is Code.INVALID_ARGUMENT


def test_a_ca_file_that_is_none_is_refused(tmp_path: Path) -> None:
    nonsense = tmp_path / "ca.pem"
    nonsense.write_text("no certificate")
    for file in (nonsense, tmp_path / "missing.pem"):
        error = error_of(Transport, Endpoint("https://vc.example/sdk", ca_file=file))
        assert error.code is Code.INVALID_ARGUMENT
        assert file.name in error.message
