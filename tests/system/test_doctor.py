"""`doctor` on real servers: all is fine, and each thing that can be wrong, with what to do."""

import asyncio
import gc
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.doctor import FAULT, FINE, INSTALLATION, WARNING, Servers, bad, set_up, settings
from support.jetstream import LEFT
from support.machines import vms
from vsphere_events.functions import FUNCTIONS
from vsphere_functions.cli.commands import app
from vsphere_functions.hosts.doctor import examine
from vsphere_functions.hosts.findings import Finding, Severity, clock, worst
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_names import DEAD, REQUESTS, RESULTS
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.vcenter import SimulatedVCenter
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.store import Bucket

READS = {
    *(
        "RetrieveServiceContent",
        "Login",
        "Logout",
        "CurrentTime",
        "RetrievePropertiesEx",
        "CreateContainerView",
    ),
    *("DestroyView", "HasUserPrivilegeOnEntities"),
}
with socket.create_server(("127.0.0.1", 0)) as _closed:
    NO_ONE = _closed.getsockname()[1]


@pytest.fixture(scope="module")
def ready(shared_vcenter: SimulatedVCenter) -> Iterator[Servers]:
    with set_up(shared_vcenter) as servers:
        yield servers


def test_a_worker_that_lacks_nothing_is_told_so_and_nothing_is_changed(
    ready: Servers,
) -> None:
    server, vcenter = ready
    given, before = settings(server, vcenter), vms(vcenter)
    stored = asyncio.run(messages(given))
    vcenter.control.reset_calls()
    found = examine(given)
    assert {one.severity for one in found} == {FINE}
    assert {one.part for one in found} == {
        *("settings", "nats", "nats payload", "nats streams", "nats clock", "nats permissions"),
        *("vcenter default", "vcenter default certificate", "vcenter default clock"),
        *("vcenter default privileges", "store default"),
    }
    assert vcenter.control.calls().keys() <= READS
    assert vcenter.control.sessions() == 0
    assert (vms(vcenter), asyncio.run(messages(given))) == (before, stored)


async def messages(given: Settings) -> dict[str, int]:
    async with connected(given) as client:
        streams = await client.jetstream().streams_info()
    return {str(one.config.name): one.state.messages for one in streams}


@pytest.mark.parametrize(
    ("sections", "part", "severity", "says", "do"),
    [
        ({"vcenter": {"password": "wrong"}}, "vcenter default", FAULT, "Unauthenticated", "password"),
        ({"vcenter": {"ca_file": None}}, "vcenter default", FAULT, "is not trusted", "ca_file"),
        (
            {"vcenter": {"url": f"https://127.0.0.1:{NO_ONE}/sdk"}},
            "vcenter default",
            FAULT,
            "cannot be reached",
            "reached from here",
        ),
        (
            {"vcenter": {"ca_file": None, "insecure": True}},
            "vcenter default certificate",
            WARNING,
            "any certificate is taken",
            "thumbprint",
        ),
        (
            {"vcenter": {"ca_file": None, "thumbprint": "ab" * 32}},
            "vcenter default certificate",
            FAULT,
            "its thumbprint is <pin>",
            "renewed",
        ),
        ({"store": {"datacenter": "nowhere"}}, "store default", FAULT, "nowhere", "stores.default"),
        (
            {"other": {"datacenter": "DC0", "path": "[we ird (1)] vols", "installation": INSTALLATION}},
            "store default",
            FAULT,
            "overlaps store other",
            "stores.default",
        ),
        (
            {"store": {"default_kb": 1024 * 1024 * 1024 * 1024}},
            "store default",
            WARNING,
            "less than a volume",
            "make room",
        ),
        ({"nats": None}, "nats", WARNING, "no section [nats]", "HTTP only"),
        ({"nats": {"url": f"nats://127.0.0.1:{NO_ONE}"}}, "nats", FAULT, "127.0.0.1", "nats.url"),
        (
            {"nats": {"ack_wait_seconds": 9}},
            "nats consumers",
            FAULT,
            "waits 2 s where the settings say 9",
            "setup",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(
    ready: Servers,
    sections: Any,
    part: str,
    severity: Severity,
    says: str,
    do: str,
) -> None:
    server, vcenter = ready
    pin = sha256(ssl.PEM_cert_to_DER_cert(vcenter.ca_file.read_text())).hexdigest()
    found = {one.part: one for one in bad(settings(server, vcenter, **sections))}
    assert found[part].severity is severity
    assert says.replace("<pin>", pin) in found[part].says
    assert do in found[part].do


def test_files_that_cannot_be_read_are_named(ready: Servers) -> None:
    server, vcenter = ready
    found = bad(settings(server, vcenter, vcenter={"password": None, "password_file": "/nowhere/password"}))
    assert [one.part for one in found] == ["settings", "vcenter default"]
    assert "vcenters.default.password_file: /nowhere/password" in found[0].says


def test_without_a_vcenter_every_request_would_be_refused(ready: Servers) -> None:
    server, vcenter = ready
    (found,) = bad(settings(server, vcenter, store=None).model_copy(update={"vcenters": {}}))
    assert (found.part, found.severity, found.says) == ("settings", FAULT, "no vCenter is configured")
    assert "[vcenters.default]" in found.do


def test_a_server_that_is_too_old_is_named(ready: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that is there is, for a bundle that needs a newer one."""
    monkeypatch.setattr("vsphere_functions.hosts.doctor_nats.OLDEST", (99, 1))
    (found,) = bad(settings(*ready))
    assert (found.part, found.severity) == ("nats", FAULT)
    assert "is too old" in found.says
    assert "99.1" in found.do


@pytest.mark.parametrize(
    ("privilege", "part", "says"),
    [
        ("Global.ManageCustomFields", "vcenter default privileges", "missing on the root folder"),
        ("VirtualMachine.Inventory.Delete", "vcenter default privileges", "no folder was found that grants"),
        ("Network.Assign", "vcenter default privileges", "no network was found that grants"),
        ("Datastore.FileManagement", "store default", "missing on datastore we ird (1)"),
    ],
)
def test_missing_privileges_are_named_with_where(
    ready: Servers, privilege: str, part: str, says: str
) -> None:
    server, vcenter = ready
    vcenter.control.deny(privilege)
    try:
        (found,) = bad(settings(server, vcenter))
    finally:
        vcenter.control.deny()
    assert (found.part, found.severity) == (part, FAULT)
    assert privilege in found.says
    assert says in found.says
    assert "roles.sh" in found.do


@pytest.mark.parametrize(("payload", "severity"), [("100KB", FAULT), ("512KB", WARNING)])
def test_a_small_payload_and_streams_that_are_not_there(
    shared_vcenter: SimulatedVCenter, payload: str, severity: Severity
) -> None:
    with NatsServer(config=f"max_payload: {payload}") as server:
        found = {one.part: one for one in bad(settings(server, shared_vcenter))}
    assert found["nats payload"].severity is severity
    assert "max_payload" in found["nats payload"].do
    missing = {"consumers", REQUESTS, RESULTS, DEAD, *(f"bucket {bucket}" for bucket in Bucket)}
    assert found.keys() == {"nats payload", *(f"nats {part}" for part in missing)}
    assert all("setup" in one.do for part, one in found.items() if part != "nats payload")


def test_what_the_user_may_not_do_is_named(ready: Servers, tmp_path: Path) -> None:
    """The streams are there, the user may do all but read many identities."""
    _, vcenter = ready
    users = """authorization { users = [
      {user: all, password: p}
      {user: less, password: p, permissions: {publish: {allow: ">", deny: "$JS.API.DIRECT.GET.KV_vsphere_identities"}}}
    ]}"""
    with NatsServer(config=users, store=tmp_path) as server:
        setup(settings(server, vcenter, nats={"user": "all", "password": "p"}))
        found = bad(settings(server, vcenter, nats={"user": "less", "password": "p"}))
        refused = bad(settings(server, vcenter, nats={"user": "less", "password": "no"}))
    (said,) = (one for one in found if one.part == "nats permissions")
    assert '"$js.api.direct.get.kv_vsphere_identities"' in said.says
    assert "accounts.conf" in said.do
    assert any(one.part == "nats bucket vsphere_identities" for one in found)
    assert ("nats", FAULT) in {(one.part, one.severity) for one in refused}
    assert "nats.user" in refused[0].do


@pytest.mark.filterwarnings(LEFT)
def test_a_nats_server_that_is_not_trusted_is_told_from_one_that_is_away(ready: Servers) -> None:
    _, vcenter = ready
    with NatsServer(config=f"tls {{ cert_file: {vcenter.ca_file}, key_file: {vcenter.key_file} }}") as server:
        refused = bad(settings(server, vcenter))
        trusted = bad(settings(server, vcenter, nats={"ca_file": str(vcenter.ca_file)}))
    assert (refused[0].part, refused[0].severity) == ("nats", FAULT)
    assert "nats.ca_file" in refused[0].do
    assert "nats" not in {one.part for one in trusted}
    gc.collect()


def test_everything_that_a_worker_asks_of_nats_is_asked_for(ready: Servers, tmp_path: Path) -> None:
    """A user that may do nothing is told of each."""
    users = """authorization { users = [
      {user: all, password: p}
      {user: none, password: p, permissions: {publish: {deny: ["vsphere.>", "$KV.>", "$JS.>"]}}}
    ]}"""
    with NatsServer(config=users, store=tmp_path) as server:
        setup(settings(server, ready[1], nats={"user": "all", "password": "p"}))
        found = bad(settings(server, ready[1], nats={"user": "none", "password": "p"}))
    said = {one.says.split('"')[1] for one in found if one.part == "nats permissions"}
    wanted = {f"vsphere.{channel}.default.{name}" for channel in ("request", "dead") for name in FUNCTIONS}
    wanted |= {
        f"vsphere.{one}.default.{name}.self-check" for one in ("result", "progress") for name in FUNCTIONS
    }
    wanted |= {f"$js.api.consumer.info.vsphere_requests.default-{name}" for name in FUNCTIONS}
    wanted |= {f"$js.api.consumer.msg.next.vsphere_requests.default-{name}" for name in FUNCTIONS}
    wanted |= {f"$js.ack.vsphere_requests.default-{name}.self-check" for name in FUNCTIONS}
    wanted |= {f"$kv.{bucket}.self-check" for bucket in Bucket}
    wanted |= {f"$js.api.direct.get.kv_{bucket}.$kv.{bucket}.self-check" for bucket in Bucket}
    wanted |= {f"$js.api.direct.get.kv_{bucket}" for bucket in (Bucket.IDENTITIES, Bucket.LEASES)}
    assert said == wanted


@pytest.mark.parametrize(
    ("seconds", "severity"), [(10, WARNING), (-10, WARNING), (3600, FAULT), (-3600, FAULT)]
)
def test_clocks_that_differ_are_named(
    ready: Servers,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    severity: Severity,
) -> None:
    """Ours is the one that goes wrong here."""
    for module in ("doctor_nats", "doctor_vcenter"):
        monkeypatch.setattr(
            f"vsphere_functions.hosts.{module}.now", lambda: datetime.now(UTC) + timedelta(seconds=seconds)
        )
    found = bad(settings(*ready))
    assert {one.part: one.severity for one in found} == {
        "nats clock": severity,
        "vcenter default clock": severity,
    }
    assert all("NTP" in one.do for one in found)


def test_the_time_on_the_way_is_no_difference() -> None:
    asked = datetime(2026, 1, 1, tzinfo=UTC)
    answered = asked + timedelta(seconds=30)
    assert clock("x", asked + timedelta(seconds=15), asked, answered).severity is FINE
    assert clock("x", answered + timedelta(seconds=3), asked, answered).severity is WARNING


@pytest.mark.parametrize(
    ("sections", "status"), [({}, 0), ({"insecure": "true"}, 1), ({"password": "wrong"}, 2)]
)
def test_the_exit_status_is_the_severity(
    ready: Servers,
    monkeypatch: pytest.MonkeyPatch,
    sections: dict[str, str],
    status: int,
) -> None:
    server, vcenter = ready
    given = {"url": vcenter.url, "user": vcenter.username, "password": vcenter.password, **sections}
    monkeypatch.setenv("VSPHERE_FUNCTIONS_NATS__URL", server.url)
    monkeypatch.setenv("VSPHERE_FUNCTIONS_NATS__ACK_WAIT_SECONDS", "2")
    monkeypatch.setenv("VSPHERE_FUNCTIONS_VCENTERS__DEFAULT__CA_FILE", str(vcenter.ca_file))
    for name, value in given.items():
        monkeypatch.setenv(f"VSPHERE_FUNCTIONS_VCENTERS__DEFAULT__{name.upper()}", value)
    told = CliRunner().invoke(app, ["doctor", "--json"])
    assert told.exit_code == status
    rows = json.loads(told.stdout)
    assert max(list(Severity).index(row["severity"]) for row in rows) == status
    assert all(row.keys() == {"part", "severity", "says", "do"} for row in rows)
    lines = CliRunner().invoke(app, ["doctor"])
    assert lines.exit_code == status
    assert ("-> " in lines.stdout) == bool(status)
    assert vcenter.password not in told.stdout + lines.stdout


def test_the_worst_counts() -> None:
    assert worst([]) is FINE
    one = Finding("x", WARNING, "y", "z")
    assert worst([one, one._replace(severity=FAULT), one]) is FAULT
