"""The files of infra/nats on real servers: each grant, each denial, TLS, encryption at rest, a leaf node."""

from __future__ import annotations

import asyncio
import gc
import re
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import nats
import pytest
from nats.errors import Error as NatsError
from typer.testing import CliRunner

from support.jetstream import LEFT, until
from support.nats_files import (
    LEAF,
    OPERATOR,
    PRODUCER,
    SETUP,
    WORKER,
    as_user,
    make_and_delete,
    refusals,
    seed,
    server,
    settings,
    stack_on,
    written,
)
from vsphere_functions.cli.commands import app
from vsphere_functions.cli.infra import nats as infra
from vsphere_functions.cli.infra.facts import Site
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_files import variable
from vsphere_functions.hosts.nats_permissions import users
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.tools import ensure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vsphere_functions.local.vcenter import SimulatedVCenter

ROOT = Path(__file__).parents[2]
ALL = {SETUP, WORKER, PRODUCER, OPERATOR}
HUB = "$JS.hub.API."
REQUESTS, RESULTS, DEAD = "VSPHERE_REQUESTS", "VSPHERE_RESULTS", "VSPHERE_DEAD"

PUBLISH: dict[str, set[str]] = {
    "vsphere.request.default.create_machine": {WORKER, PRODUCER, OPERATOR},
    "vsphere.request.blue.create_machine": set(),
    "vsphere.result.default.create_machine.x": {WORKER, OPERATOR},
    "vsphere.result.blue.create_machine.x": set(),
    "vsphere.progress.default.create_machine.x": {WORKER},
    "vsphere.progress.blue.create_machine.x": set(),
    "vsphere.dead.default.create_machine": {WORKER},
    "vsphere.dead.blue.create_machine": set(),
    f"$JS.API.CONSUMER.INFO.{REQUESTS}.default-create_machine": {SETUP, WORKER, OPERATOR},
    f"$JS.API.CONSUMER.INFO.{REQUESTS}.blue-create_machine": {SETUP, OPERATOR},
    f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.default-create_machine": {SETUP, WORKER},
    f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.blue-create_machine": {SETUP},
    f"$JS.ACK.{REQUESTS}.default-create_machine.1.1.1.1.1": {WORKER},
    f"$JS.ACK.{REQUESTS}.blue-create_machine.1.1.1.1.1": set(),
    "$KV.vsphere_operations.x": {WORKER, OPERATOR},
    "$KV.vsphere_identities.x": {WORKER},
    "$KV.vsphere_leases.x": {WORKER},
    "$KV.other.x": set(),
    "$JS.API.DIRECT.GET.KV_vsphere_operations.$KV.vsphere_operations.x": {SETUP, WORKER, OPERATOR},
    "$JS.API.DIRECT.GET.KV_vsphere_identities.$KV.vsphere_identities.x": {SETUP, WORKER},
    "$JS.API.DIRECT.GET.KV_vsphere_leases.$KV.vsphere_leases.x": {SETUP, WORKER, OPERATOR},
    "$JS.API.DIRECT.GET.KV_vsphere_operations": {SETUP},
    "$JS.API.DIRECT.GET.KV_vsphere_identities": {SETUP, WORKER},
    "$JS.API.DIRECT.GET.KV_vsphere_leases": {SETUP, WORKER},
    f"$JS.API.DIRECT.GET.{RESULTS}.vsphere.result.default.create_machine.x": {SETUP, PRODUCER, OPERATOR},
    f"$JS.API.DIRECT.GET.{RESULTS}.vsphere.result.blue.create_machine.x": {SETUP},
    f"$JS.API.DIRECT.GET.{RESULTS}": {SETUP},
    f"$JS.API.DIRECT.GET.{REQUESTS}": {SETUP},
    f"$JS.API.DIRECT.GET.{DEAD}": {SETUP, OPERATOR},
    f"$JS.API.STREAM.MSG.GET.{RESULTS}": {SETUP},
    f"$JS.API.STREAM.MSG.GET.{REQUESTS}": {SETUP},
    "$JS.API.INFO": {SETUP, OPERATOR},
    "$JS.API.STREAM.LIST": {SETUP, OPERATOR},
    "$JS.API.STREAM.NAMES": {SETUP, OPERATOR},
    **{
        f"$JS.API.{asks}.{stream}": {SETUP, OPERATOR}
        for asks in ("STREAM.INFO", "CONSUMER.LIST", "CONSUMER.NAMES")
        for stream in (REQUESTS, RESULTS, DEAD, "KV_vsphere_operations", "KV_vsphere_leases")
    },
    "$JS.API.STREAM.INFO.OTHER": {SETUP},
    f"$JS.API.STREAM.MSG.DELETE.{DEAD}": {SETUP, OPERATOR},
    f"$JS.API.STREAM.MSG.DELETE.{REQUESTS}": {SETUP},
    f"$JS.API.STREAM.PURGE.{REQUESTS}": {SETUP},
    f"$JS.API.STREAM.UPDATE.{REQUESTS}": {SETUP},
    f"$JS.API.STREAM.DELETE.{RESULTS}": {SETUP},
    "$JS.API.STREAM.CREATE.OTHER": {SETUP},
    f"$JS.API.CONSUMER.CREATE.{RESULTS}": {SETUP},
    f"$JS.API.CONSUMER.CREATE.{RESULTS}.x.vsphere.result.default.>": {SETUP},
    f"$JS.API.CONSUMER.PAUSE.{REQUESTS}.default-create_machine": {SETUP},
    f"$JS.API.CONSUMER.DELETE.{REQUESTS}.default-create_machine": {SETUP},
    "_INBOX_producer-default.x": set(),
    "other": set(),
    f"{HUB}STREAM.DELETE.BY_DOMAIN": {SETUP},
    f"{HUB}CONSUMER.DELETE.BY_DOMAIN.x": {SETUP},
}
"""Who may publish what, as the design says, and everybody else not; the domain's names open no way around."""
SUBSCRIBE: dict[str, set[str]] = {
    "vsphere.result.default.>": {PRODUCER, OPERATOR},
    "vsphere.result.>": set(),
    "vsphere.result.blue.create_machine.x": set(),
    "vsphere.progress.default.>": {PRODUCER, OPERATOR},
    "vsphere.progress.blue.>": set(),
    "vsphere.request.default.>": set(),
    "vsphere.dead.>": set(),
    "$KV.vsphere_operations.>": set(),
    "$JS.>": set(),
    ">": set(),
    "_INBOX.x.*": set(),
    "_INBOX_setup.x.*": {SETUP},
    "_INBOX_worker.x.*": {WORKER},
    "_INBOX_producer-default.x.*": {PRODUCER},
    "_INBOX_producer-blue.x.*": set(),
    "_INBOX_operator.x.*": {OPERATOR},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, shared_vcenter: SimulatedVCenter) -> Path:
    return written(tmp_path_factory.mktemp("nats"), shared_vcenter)


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[NatsServer]:
    with server(folder) as running:
        yield running


def test_the_table_is_about_all_users() -> None:
    assert {one.name for one in users(["default"])} == {*ALL, LEAF}


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_user_may_what_the_design_says_and_no_more(hub: NatsServer, folder: Path, name: str) -> None:
    refused: list[str] = []

    async def noted(error: Exception) -> None:
        refused.append(str(error))

    async def ask() -> None:
        options = as_user(folder, name) | {"inbox_prefix": "_INBOX"}
        client = await nats.connect(hub.url, **options, error_cb=noted, allow_reconnect=False)
        for subject in SUBSCRIBE:
            await client.subscribe(subject)
        for subject in PUBLISH:
            await client.publish(subject, b"", headers={"Nats-Expected-Stream": "none"})
        await client.publish("the.end")  # refused to all, and after all else
        await until(lambda: refused and "the.end" in refused[-1], 60)
        await client.close()

    asyncio.run(ask())
    said = {
        (match[1], match[2])
        for one in refused
        if (match := re.search(r'permissions violation for (publish|subscription) to "(.*?)"', one))
    }
    assert {subject for subject, allowed in PUBLISH.items() if name not in allowed} == {
        subject for subject in PUBLISH if ("publish", subject.replace(HUB, "$JS.API.").lower()) in said
    }
    assert {subject for subject, allowed in SUBSCRIBE.items() if name not in allowed} == {
        subject for subject in SUBSCRIBE if ("subscription", subject.lower()) in said
    }


@pytest.mark.filterwarnings(LEFT)
@pytest.mark.parametrize("lacking", ["key", "tls", "trust"])
def test_nobody_connects_without_a_key_or_without_tls(hub: NatsServer, folder: Path, lacking: str) -> None:
    options = as_user(folder, WORKER)
    if lacking == "key":
        del options["nkeys_seed"]
    elif lacking == "tls":
        del options["tls"]
    else:
        options["tls"] = ssl.create_default_context()

    async def ask() -> None:
        await nats.connect(hub.url, **options, allow_reconnect=False, max_reconnect_attempts=0)

    with pytest.raises((NatsError, ssl.SSLError)):
        asyncio.run(ask())
    gc.collect()


def test_the_end_of_a_connection_over_tls_is_no_line_of_a_log(
    hub: NatsServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def look() -> None:
        async with connected(settings(folder, WORKER, hub.url)):
            pass

    asyncio.run(look())
    assert caplog.messages == []


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_lies_on_disk_is_encrypted(folder: Path, encrypted: bool) -> None:
    """Without the cipher, the same look finds it."""
    marker = b"a-secret-in-a-request"

    async def publish(running: NatsServer) -> None:
        async with connected(settings(folder, OPERATOR, running.url)) as client:
            await client.publish("vsphere.request.default.create_machine", marker)
            await client.flush()

    running = server(folder)
    if not encrypted:
        own = running.home / "nats.conf"
        own.write_text(re.sub(r"\n(  cipher|  key:|include keys).*", "", own.read_text()))
    with running:
        setup(settings(folder, SETUP, running.url))
        asyncio.run(publish(running))
        running.stop()
        found = [file for file in running.store.rglob("*") if file.is_file() and marker in file.read_bytes()]
    assert bool(found) != encrypted


def test_what_asks_for_no_login_or_no_tls_is_open_to_its_own_host_alone(folder: Path) -> None:
    """The monitoring port, and the port for workers beside a leaf node."""
    hub, leaf = ((folder / name).read_text() for name in ("server.conf", "leaf.conf"))
    assert re.findall(r"^http: (.*)$", hub, re.MULTILINE) == ["127.0.0.1:8222"]
    assert re.findall(r"^listen: (.*)$", leaf, re.MULTILINE) == ["127.0.0.1:4222"]
    listening = re.findall(r"tls \{[^}]*cert_file[^}]*\}", hub)
    assert len(listening) == 2
    assert all('min_version: "1.2"' in one for one in listening)


def test_machines_come_and_go_with_these_keys_and_permissions(folder: Path) -> None:
    with stack_on(server(folder), folder) as stack:
        make_and_delete(stack, folder)
        assert refusals(stack.nats) == []


def test_a_second_time_keys_stay_and_users_are_added(tmp_path: Path) -> None:
    def run(*more: str) -> None:
        assert CliRunner().invoke(app, ["nats-config", "--into", str(tmp_path), *more]).exit_code == 0

    run()
    keys = {file: file.read_text() for file in (tmp_path / "keys").iterdir()}
    assert {oct(file.stat().st_mode & 0o777) for file in keys} == {"0o600"}
    assert oct((tmp_path / "keys").stat().st_mode & 0o777) == "0o700"
    (tmp_path / "server.conf").write_text("mine")
    run("--vcenter", "default", "--vcenter", "blue")
    assert {file: file.read_text() for file in keys} == keys
    assert (tmp_path / "keys" / "producer-blue.nk").is_file()
    assert (tmp_path / "server.conf").read_text() == "mine"
    told = (tmp_path / "accounts.conf").read_text()
    assert "vsphere.request.blue.>" in told
    assert not any(text.strip() in told for text in keys.values())
    wrong = CliRunner().invoke(app, ["nats-config", "--into", str(tmp_path), "--vcenter", "a.b"])
    assert wrong.exit_code == 2


def test_the_files_of_the_repository_differ_only_in_the_keys(folder: Path) -> None:
    for name, text in infra.files(Site()).items():
        path = ROOT / "infra" / name
        own = (folder / path.name).read_text().replace(str(folder), "/etc/nats")
        without = re.sub(r"nkey: U[A-Z2-7]{55}", "nkey: *", own)
        assert without == re.sub(r"nkey: \$[A-Z_]+_NKEY", "nkey: *", text)
        assert path.read_text() == text
    assert variable("producer-default") == "PRODUCER_DEFAULT_NKEY"


def test_an_operator_can_give_the_commands_of_the_guide(
    hub: NatsServer, folder: Path, tmp_path: Path
) -> None:
    """Those of "Where to look first" and of the sections after it, as `nats` itself asks."""
    (nats_cli,) = ensure("natscli")
    setup(settings(folder, SETUP, hub.url))
    subject, key = "vsphere.result.default.create_machine.x", "default.worker-1"

    async def fill() -> None:
        async with connected(settings(folder, WORKER, hub.url)) as client:
            for one in (subject, f"$KV.vsphere_leases.{key}"):
                await client.request(one, b"what is there", timeout=60)

    def told(name: str, *arguments: str) -> str:
        place = ("--server", hub.url, "--tlsca", str(folder / "tls" / "ca.crt"), "--timeout", "60s")
        user = ("--nkey", seed(folder, name), "--inbox-prefix", f"_INBOX_{name}")
        done = subprocess.run(
            [nats_cli, *place, *user, *arguments],
            env={"HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    asyncio.run(fill())
    assert RESULTS in told(OPERATOR, "stream", "report")
    assert "default-create_machine" in told(OPERATOR, "consumer", "report", REQUESTS)
    assert "First Sequence" in told(OPERATOR, "stream", "info", REQUESTS)
    assert f"$KV.vsphere_leases.{key}" in told(OPERATOR, "stream", "subjects", "KV_vsphere_leases")
    assert "what is there" in told(OPERATOR, "kv", "get", "vsphere_leases", key)
    for name in (OPERATOR, PRODUCER):
        assert "what is there" in told(name, "req", f"$JS.API.DIRECT.GET.{RESULTS}.{subject}", "")
    told(SETUP, "stream", "purge", REQUESTS, "--force", "--subject", "vsphere.request.default.create_machine")
