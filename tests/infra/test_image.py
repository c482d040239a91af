"""The image's commands, run by hand: with IMAGE, a Python, in a folder that they install, else in this environment."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from support.http_host import free_port, request, result_of, until
from support.image import CHECKOUT, FOLDER, Image, pinned, stages
from support.manifests import containers
from vsphere_events.envelope import Mode, to_http
from vsphere_events.subjects import Kind, event_type
from vsphere_functions.cli.infra import facts
from vsphere_functions.cli.worker import LEAN, TUNABLES
from vsphere_functions.local.children import end
from vsphere_functions.runtime.settings import Http, Worker

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from vsphere_functions.local.nats_server import NatsServer
    from vsphere_functions.local.vcenter import SimulatedVCenter

PATIENCE = 60


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image below a folder of its own."""
    made = Image(tmp_path_factory.mktemp("image"))
    if base := os.environ.get("IMAGE"):
        made.build(base)
        _is_complete(made)
    else:
        made.link()
    return made


def _is_complete(image: Image) -> None:
    """What was installed is what is pinned, no pip among it, and the SBOM says so."""
    sbom = json.loads((image.home / "sbom.cdx.json").read_text())
    listed = [sbom["metadata"]["component"], *sbom["components"]]
    said = {one["name"].lower().replace("_", "-"): one["version"] for one in listed}
    installed = image.home.glob("lib/python*/site-packages/*.dist-info")
    assert said.keys() == {one.name.partition("-")[0].lower().replace("_", "-") for one in installed}
    assert said.items() <= {
        *pinned(CHECKOUT / "requirements" / "runtime.txt"),
        (facts.NAME, facts.version()),
    }
    assert {"pyvmomi", "nats-py", "functions-framework"} <= said.keys()
    assert not list(image.home.glob("bin/pip*"))
    assert (image.home / "bin" / "python").resolve().exists()


@contextmanager
def running(
    image: Image, folder: Path, *arguments: str, **environment: str
) -> Iterator[subprocess.Popen[str]]:
    """The entry, alive by its own health check; it has to have written nothing and to end by SIGTERM with 0."""
    before = image.written()
    process = image.start(folder / "log", *arguments, **environment)
    try:
        until(lambda: process.poll() is not None or image.healthy(**environment), PATIENCE)
        assert process.poll() is None, (folder / "log").read_text()
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, (folder / "log").read_text()
        assert not image.healthy(**environment)
        assert image.written() == before
    finally:
        end(process)


def platform(vcenter: SimulatedVCenter, **more: str) -> dict[str, str]:
    """What a platform gives: where the vCenter is, and nothing of this machine."""
    label = {"label": "default"}
    return {
        facts.environment("vcenters.<name>.url", **label): vcenter.url,
        facts.environment("vcenters.<name>.user", **label): vcenter.username,
        facts.environment("vcenters.<name>.password", **label): vcenter.password,
        facts.environment("vcenters.<name>.ca_file", **label): str(vcenter.ca_file),
        "PORT": str(free_port()),
        **more,
    }


def probed(name: str) -> set[str]:
    """The paths that a cluster asks a container of this name."""
    probes = ("livenessProbe", "readinessProbe")
    return {one[probe]["httpGet"]["path"] for one in containers() if one["name"] == name for probe in probes}


@pytest.mark.parametrize("target", ["", "list_machines"])
def test_without_arguments_it_serves_one_function_or_all(
    image: Image, shared_vcenter: SimulatedVCenter, tmp_path: Path, target: str
) -> None:
    given = platform(shared_vcenter, **({"FUNCTION_TARGET": target} if target else {}))
    listing = request("list_machines", data={"providerSpec": request("list_machines").data["providerSpec"]})
    headers, body = to_http(listing, Mode.BINARY)
    other = event_type("get_machine_status", Kind.REQUEST)
    with running(image, tmp_path, **given):
        url = f"http://127.0.0.1:{given['PORT']}"
        answer = httpx.post(url, headers=headers, content=body, timeout=PATIENCE)
        assert result_of(answer).type == event_type("list_machines", Kind.SUCCEEDED)
        foreign = httpx.post(url, headers={**headers, "ce-type": other}, content=b"{}", timeout=PATIENCE)
        assert foreign.status_code == (400 if target else 200)
        for path in probed("function" if target else "router"):
            assert httpx.get(url + path, timeout=PATIENCE).status_code == 200


def test_setup_and_worker_are_arguments(
    image: Image, shared_vcenter: SimulatedVCenter, nats_server: NatsServer, tmp_path: Path
) -> None:
    health = str(free_port())
    given = platform(shared_vcenter)
    given[facts.environment("nats.url")] = nats_server.url
    given[facts.environment("worker.health_port")] = health
    assert image.start(tmp_path / "setup", "setup", **given).wait(PATIENCE) == 0
    with running(image, tmp_path, "worker", **given):
        for path in probed("worker"):
            until(
                lambda path=path: httpx.get(f"http://127.0.0.1:{health}{path}").status_code == 200, PATIENCE
            )


def test_the_entry_hands_on_what_a_command_says(image: Image, tmp_path: Path) -> None:
    assert image.start(tmp_path / "log", "worker", PORT="1").wait(PATIENCE) == 2
    assert "nats" in (tmp_path / "log").read_text()


def test_the_dockerfile_agrees_with_the_code() -> None:
    builder, final = stages(FOLDER / "Dockerfile")
    assert {builder.base, final.base} == {"${PYTHON}"}
    (user,) = final.all("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user), "Kubernetes knows no other names"
    assert final.all("WORKDIR") == [facts.HOME]
    given = final.pairs("ENV")
    assert given["PORT"] == str(Http().port) == str(facts.HTTP_PORT)
    assert given["TMPDIR"] == "/dev/shm", "with a read-only root, gunicorn finds no other place"
    assert given[TUNABLES] == LEAN, "hosts over HTTP have no other heap than a worker"
    assert final.all("EXPOSE") == [f"{Http().port} {Worker().health_port}"]
    assert final.all("COPY") == [f"--from=build {facts.HOME} {facts.HOME}"]
    assert final.pairs("LABEL")["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert final.words("HEALTHCHECK")
    assert not final.all("RUN")


def test_everything_that_is_installed_is_pinned_by_hash() -> None:
    builder, _ = stages(FOLDER / "Dockerfile")
    installs = [
        command
        for rest in builder.all("RUN")
        for command in rest.split("&&")
        if re.search(r"\b(install|wheel)\b", command)
    ]
    assert len(installs) == 4
    for command in installs:
        assert "--require-hashes" in command or "--no-deps" in command
        assert "wheel " not in command or "--no-build-isolation" in command, (
            "it would fetch what nobody pinned"
        )
    said = " ".join(installs)
    for name in ("runtime", "build"):
        assert f"--require-hashes --requirement requirements/{name}.txt" in said


def test_the_build_leaves_a_list_of_what_is_in_the_image_and_no_installer() -> None:
    """That the list is whole, and that no pip is there, `make image-check` shows by building."""
    builder, _ = stages(FOLDER / "Dockerfile")
    (sbom,) = [rest for rest in builder.all("RUN") if "cyclonedx-py environment" in rest]
    assert sbom.split()[-3:] == ["--output-file", f"{facts.HOME}/sbom.cdx.json", f"{facts.HOME}/bin/python"]
    (made,) = [
        one
        for rest in builder.all("RUN")
        for one in rest.split("&&")
        if f"venv --without-pip {facts.HOME}" in one
    ]
    assert builder.all("RUN")[-1] == sbom, "what is installed after it would not be in it"
    assert made


def test_the_build_context_has_what_is_copied_and_no_more() -> None:
    ignored, *allowed = [
        line
        for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert ignored == "*"
    kept = [line[1:] for line in allowed if line.startswith("!")]
    builder, _ = stages(FOLDER / "Dockerfile")
    sources = [
        word for rest in builder.all("COPY") for word in rest.split()[:-1] if not word.startswith("--")
    ]
    assert [
        one for one in sources if not any(one == line or one.startswith(f"{line}/") for line in kept)
    ] == []
    assert [
        line for line in kept if not any(one == line or one.startswith(f"{line}/") for one in sources)
    ] == []
