"""Servers on the files that `nats-config` writes, and clients that are their users."""

from __future__ import annotations

import re
import shutil
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from vsphere_events.client import SyncClient
from vsphere_functions.hosts.nats_files import write
from vsphere_functions.hosts.nats_permissions import users
from vsphere_functions.local.examples import example
from vsphere_functions.local.nats_server import NatsServer
from vsphere_functions.local.stack import Stack
from vsphere_functions.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_functions.local.vcenter import SimulatedVCenter

SETUP, WORKER, PRODUCER, OPERATOR, LEAF = "setup", "worker", "producer-default", "operator", "leaf"


def written(folder: Path, vcenter: SimulatedVCenter) -> Path:
    """What `nats-config` writes, and a certificate for 127.0.0.1 beside it."""
    write(folder, ["default"], str(folder))
    (folder / "tls").mkdir()
    for name, file in {"server.crt": "ca_file", "ca.crt": "ca_file", "server.key": "key_file"}.items():
        (folder / "tls" / name).write_bytes(getattr(vcenter, file).read_bytes())
    return folder


def server(folder: Path, file: str = "server.conf", leaves: int = 0) -> NatsServer:
    """A server with exactly the files; the store and the port of leaf nodes that they name are others here."""
    made = NatsServer(jetstream=False)
    shutil.copytree(folder, made.home, dirs_exist_ok=True)
    text = (folder / file).read_text().replace("/var/lib/nats", str(made.store))
    text = re.sub(r"(0\.0\.0\.0|nats\.example):7422", f"127.0.0.1:{leaves or -1}", text)
    (made.home / "nats.conf").write_text(text)
    return made


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


def settings(folder: Path, name: str, url: str) -> Settings:
    return Settings.model_validate(
        {
            "nats": section(folder, name, url),
            "vcenters": {"default": {"url": "https://vc.example", "user": "u", "password": "p"}},
        }
    )


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
