"""The targets as functions-framework finds them, and how they leave a process that they do not own."""

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import httpx
import pytest
from functions_framework import _function_registry as registry
from functions_framework import aio

from support.http_host import MAIN, request
from vsphere_events.envelope import Mode, from_http, to_http
from vsphere_events.functions import FUNCTIONS
from vsphere_functions.hosts.http import serve
from vsphere_functions.hosts.http_exit import before_exit
from vsphere_functions.hosts.http_targets import _service
from vsphere_functions.runtime.settings import Settings, SettingsError


@pytest.fixture
def handlers() -> Iterator[None]:
    """Give the signals back to pytest."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def main() -> ModuleType:
    spec = importlib.util.spec_from_file_location("main", MAIN)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_main_has_a_target_for_each_function_and_the_router(main: ModuleType) -> None:
    targets = {
        name: made for name, made in vars(main).items() if isinstance(made, FunctionType) and name != "target"
    }
    assert targets.keys() == {*FUNCTIONS, "router"}
    for name, made in targets.items():
        assert made.__name__ == name
        assert registry.REGISTRY_MAP[name] == "http"
        assert name in registry.ASGI_FUNCTIONS


def test_the_module_opens_nothing() -> None:
    """The module is loaded before the server forks: no thread, no socket, no settings."""
    script = (
        "import runpy, socket, sys, threading;"
        "sys.addaudithook(lambda event, _: sys.exit(event) if event.startswith('socket.') else None);"
        f"runpy.run_path({str(MAIN)!r});"
        "sys.exit(threading.active_count() != 1)"
    )
    environment = {**os.environ, "VSPHERE_FUNCTIONS_CONFIG": "/nowhere.toml"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert done.returncode == 0


@pytest.mark.usefixtures("handlers")
def test_a_target_opens_its_service_at_the_first_request_and_closes_it_at_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The framework's own app, driven in this process."""
    config = tmp_path / "c.toml"
    config.write_text('[vcenters.default]\nurl = "https://127.0.0.1:9/sdk"\nuser = "u"\npassword = "p"\n')
    monkeypatch.setenv("VSPHERE_FUNCTIONS_CONFIG", str(config))
    ended = asyncio.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    create: Any = aio.create_asgi_app

    async def run() -> None:
        app = create("get_volume_ids", str(MAIN))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            assert not _service.cache_info().currsize
            headers, body = to_http(request("get_volume_ids", data={"pvSpecList": []}), Mode.BINARY)
            response = await client.post("/", headers=headers, content=body)
            assert from_http(response.headers, response.content).event.data == {"volumeIDs": []}
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait_for(ended.wait(), 10)
            assert (await client.get("/readyz")).json()["problems"] == {"process": "shutting down"}

    try:
        asyncio.run(run())
    finally:
        _service.cache_clear()


@pytest.mark.usefixtures("handlers")
def test_the_same_signal_again_does_not_wait_but_the_rest_of_a_control_c_does() -> None:
    ended = asyncio.Event()
    signal.signal(signal.SIGINT, lambda *_: ended.set())

    async def run() -> None:
        never = asyncio.Event()
        before_exit(never.wait)
        for number in (signal.SIGINT, signal.SIGQUIT):
            signal.raise_signal(number)
            await asyncio.sleep(0)
        assert not ended.is_set()
        signal.raise_signal(signal.SIGINT)
        await asyncio.wait_for(ended.wait(), 5)

    asyncio.run(run())


def test_an_address_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SettingsError, match="in use"):
        serve(Settings(), "127.0.0.1", taken.getsockname()[1])
