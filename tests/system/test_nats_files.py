"""The files of infra/nats on real servers: each grant, each denial, TLS, encryption at rest, a leaf node."""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import ssl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.errors import Error as NatsError
from typer.testing import CliRunner

from support.jetstream import until
from vsphere_events.client import SyncClient
from vsphere_functions.cli.commands import app
from vsphere_functions.cli.infra import nats as infra
from vsphere_functions.cli.infra.facts import Site
from vsphere_functions.hosts.nats_connection import connected
from vsphere_functions.hosts.nats_files import variable, write
from vsphere_functions.hosts.nats_permissions import users
from vsphere_functions.hosts.nats_setup import setup
from vsphere_functions.local.examples import example
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.stack import Stack
from vsphere_functions.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vsphere_functions.local.vcenter import SimulatedVCenter

ROOT = Path(__file__).parents[2]
SETUP, WORKER, PRODUCER, OPERATOR, LEAF = "setup", "worker", "producer-default", "operator", "leaf"
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
    f"$JS.API.CONSUMER.INFO.{REQUESTS}.default-create_machine": {SETUP, WORKER},
    f"$JS.API.CONSUMER.INFO.{REQUESTS}.blue-create_machine": {SETUP},
    f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.default-create_machine": {SETUP, WORKER},
    f"$JS.API.CONSUMER.MSG.NEXT.{REQUESTS}.blue-create_machine": {SETUP},
    f"$JS.ACK.{REQUESTS}.default-create_machine.1.1.1.1.1": {WORKER},
    f"$JS.ACK.{REQUESTS}.blue-create_machine.1.1.1.1.1": set(),
    "$KV.vsphere_operations.x": {WORKER, OPERATOR},
    "$KV.vsphere_identities.x": {WORKER},
    "$KV.vsphere_leases.x": {WORKER},
    "$JS.API.DIRECT.GET.KV_vsphere_operations.$KV.vsphere_operations.x": {SETUP, WORKER, OPERATOR},
    "$JS.API.DIRECT.GET.KV_vsphere_identities.$KV.vsphere_identities.x": {SETUP, WORKER},
    "$JS.API.DIRECT.GET.KV_vsphere_leases.$KV.vsphere_leases.x": {SETUP, WORKER},
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
    f"$JS.API.STREAM.MSG.DELETE.{DEAD}": {SETUP, OPERATOR},
    f"$JS.API.STREAM.MSG.DELETE.{REQUESTS}": {SETUP},
    f"$JS.API.STREAM.PURGE.{REQUESTS}": {SETUP},
    f"$JS.API.STREAM.DELETE.{RESULTS}": {SETUP},
    "$JS.API.STREAM.CREATE.OTHER": {SETUP},
    f"$JS.API.CONSUMER.CREATE.{RESULTS}": {SETUP},
    f"$JS.API.CONSUMER.DELETE.{REQUESTS}.default-create_machine": {SETUP},
    "_INBOX_producer-default.x": set(),
    "other": set(),
    f"{HUB}STREAM.DELETE.BY_DOMAIN": {SETUP},
    f"{HUB}CONSUMER.DELETE.BY_DOMAIN.x": {SETUP},
}
"""Who may publish what, as the design says, and everybody else not; the domain's names open no way around."""
SUBSCRIBE: dict[str, set[str]] = {
    "vsphere.result.default.>": {PRODUCER},
    "vsphere.result.>": set(),
    "vsphere.result.blue.create_machine.x": set(),
    "vsphere.progress.default.>": {PRODUCER},
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
    """What `nats-config` writes, and a certificate for 127.0.0.1 beside it."""
    made = tmp_path_factory.mktemp("nats")
    write(made, ["default"], str(made))
    (made / "tls").mkdir()
    for name, file in {"server.crt": "ca_file", "ca.crt": "ca_file", "server.key": "key_file"}.items():
        (made / "tls" / name).write_bytes(getattr(shared_vcenter, file).read_bytes())
    return made


def server(folder: Path, file: str = "server.conf", leaves: int = 0) -> NatsServer:
    """A server with exactly the files; the store and the port of leaf nodes that they name are others here."""
    made = NatsServer(jetstream=False)
    shutil.copytree(folder, made.home, dirs_exist_ok=True)
    text = (folder / file).read_text().replace("/var/lib/nats", str(made.store))
    text = re.sub(r"(0\.0\.0\.0|nats\.example):7422", f"127.0.0.1:{leaves or -1}", text)
    (made.home / "nats.conf").write_text(text)
    return made


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[NatsServer]:
    with server(folder) as running:
        yield running


def seed(folder: Path, name: str) -> str:
    return str(folder / "keys" / f"{name}.nk")


def trusted(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "tls" / "ca.crt"))


def as_user(folder: Path, name: str) -> dict[str, Any]:
    """The options of a client that is this user."""
    (one,) = (one for one in users(["default"]) if one.name == name)
    return {"nkeys_seed": seed(folder, name), "tls": trusted(folder), "inbox_prefix": one.inbox}


def section(folder: Path, name: str, url: str) -> dict[str, Any]:
    """The settings of a process that is this user."""
    return {
        "url": url,
        "nkey_seed_file": seed(folder, name),
        "ca_file": str(folder / "tls" / "ca.crt"),
        "inbox_prefix": f"_INBOX_{name}",
    }


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


def settings(folder: Path, name: str, url: str) -> Settings:
    return Settings.model_validate(
        {
            "nats": section(folder, name, url),
            "vcenters": {"default": {"url": "https://vc.example", "user": "u", "password": "p"}},
        }
    )


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


@contextmanager
def stack_on(files: NatsServer, folder: Path, worker_url: str = "") -> Iterator[Stack]:
    """The stack on such a server, with a worker that is the user for that."""
    own = section(folder, SETUP, "")
    del own["url"]
    with Stack(nats=files, sections={"nats": own}) as stack:
        text = (
            stack.config.read_text()
            .replace("/setup.nk", "/worker.nk")
            .replace("_INBOX_setup", "_INBOX_worker")
        )
        stack.config.write_text(text.replace(stack.nats.url, worker_url or stack.nats.url))
        stack.start_worker()
        yield stack


def make_and_delete(stack: Stack, folder: Path) -> None:
    with SyncClient(stack.nats.url, **as_user(folder, PRODUCER)) as client:
        with client.send("create_machine", example("create_machine")) as pending:
            assert next(iter(pending)).step == "clone"
            made = pending.result()
        listed = client.list_all_machines(example("list_machines")).machine_list
        assert listed == {str(made.provider_id): "worker-1"}
        assert client.delete_machine(example("delete_machine")).provider_id == made.provider_id


def refusals(one: NatsServer) -> list[str]:
    return [line for line in one.log.splitlines() if "ermissions Violation" in line]


def test_machines_come_and_go_with_these_keys_and_permissions(folder: Path) -> None:
    with stack_on(server(folder), folder) as stack:
        make_and_delete(stack, folder)
        assert refusals(stack.nats) == []


def test_a_worker_beside_a_distant_vcenter_works_over_a_leaf_node(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        server(folder, "leaf.conf", port) as leaf,
        stack_on(server(folder, leaves=port), folder, leaf.url) as stack,
    ):
        make_and_delete(stack, folder)
        assert refusals(stack.nats) + refusals(leaf) == []


def test_a_site_that_is_taken_over_can_do_no_more_than_its_workers(folder: Path) -> None:
    """Whoever holds the leaf node can give its users all permissions there; the hub has its own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub, leaf = server(folder, leaves=port), server(folder, "leaf.conf", port)
    own = leaf.home / "leaf-accounts.conf"
    own.write_text(re.sub(r", permissions: \{.*?\n      \}", "", own.read_text(), flags=re.DOTALL))
    allowed = {
        "$KV.vsphere_leases.x": True,
        "$KV.other.x": False,
        f"$JS.API.CONSUMER.INFO.{REQUESTS}.default-create_machine": True,
        f"$JS.API.CONSUMER.INFO.{DEAD}.any": False,
        f"$JS.API.STREAM.INFO.{RESULTS}": False,
        f"$JS.API.STREAM.DELETE.{RESULTS}": False,
        f"$JS.API.DIRECT.GET.{DEAD}": False,
        "vsphere.result.default.create_machine.x": True,
        "vsphere.result.blue.create_machine.x": False,
        "vsphere.dead.default.create_machine": True,
    }

    async def answered(subject: str) -> bool:
        async with connected(settings(folder, WORKER, leaf.url)) as client:
            try:
                await client.request(subject, b"", timeout=0.5, headers={"Nats-Expected-Stream": "none"})
            except NatsError:
                return False
            return True

    async def others() -> None:
        async with connected(settings(folder, SETUP, hub.url)) as client:
            await client.jetstream().add_stream(name="OTHER", subjects=["$KV.other.>"])

    with hub, leaf:
        setup(settings(folder, SETUP, hub.url))
        asyncio.run(others())
        asyncio.run(until(lambda: answered("$KV.vsphere_leases.x"), 60))
        assert {subject: asyncio.run(answered(subject)) for subject in allowed} == allowed


def test_a_second_time_keys_stay_and_users_are_added(tmp_path: Path) -> None:
    def run(*more: str) -> None:
        assert CliRunner().invoke(app, ["nats-config", "--into", str(tmp_path), *more]).exit_code == 0

    run()
    keys = {file: file.read_text() for file in (tmp_path / "keys").iterdir()}
    assert {oct(file.stat().st_mode & 0o777) for file in keys} == {"0o600"}
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
