"""A worker in a process of its own, whose effects are lines of a file: for tests that kill or stop it.

Environment: WORLD, a folder with `effects`; a file `hold` there makes a create wait, step by step, between its two
effects, a file `blind` without any step; `stop` makes the next create stop its process before it changes anything,
until `woken` is there and it is continued.
CRASH=stored|published kills the process at that point of finishing.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.functions import UUID
from vsphere_events.machine import (
    CreateMachineRequest,
    CreateMachineResult,
    DeleteMachineRequest,
    DeleteMachineResult,
    DetachedVolume,
)
from vsphere_functions.context import Context
from vsphere_functions.hosts.jetstream import worker
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.local.children import start
from vsphere_functions.runtime.settings import Settings
from vsphere_functions.runtime.settings_load import load
from vsphere_functions.steps import Step, Steps


class FileWorld:
    """Machines of all processes that share the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def effects(self) -> list[str]:
        """What was done, in order."""
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def catalogue(self) -> dict[str, Callable[[Any, Any], Any]]:
        return {"create_machine": self.create_machine, "delete_machine": self.delete_machine}

    def create_machine(self, request: CreateMachineRequest, ctx: Context) -> Steps[CreateMachineResult]:
        if not self._there(request.machine_name):
            if (self.folder / "stop").exists():
                (self.folder / "stop").unlink()
                os.kill(os.getpid(), signal.SIGSTOP)
                while not (self.folder / "woken").exists():
                    time.sleep(0.01)  # a stop reaches the thread that asked for it a little later
            ctx.fence.check()
            self._do(f"create {request.machine_name}")
        yield Step("clone", f"cloned by {os.getpid()}", "cloned")
        while (self.folder / "hold").exists() or (self.folder / "blind").exists():
            time.sleep(0.02)
            if (self.folder / "hold").exists():
                yield Step("wait", "waits", "waits")
        ctx.fence.confirm()
        if request.last_known_state:
            self._do(f"resumed {request.last_known_state.split()[0]}")
        return CreateMachineResult(provider_id=f"vsphere://{UUID}", node_name=request.machine_name)

    def delete_machine(self, request: DeleteMachineRequest, ctx: Context) -> Steps[DeleteMachineResult]:
        detached: tuple[DetachedVolume, ...] = ()
        if self._there(request.machine_name):
            ctx.fence.check()
            self._do(f"delete {request.machine_name}")
            detached = (DetachedVolume(vmdk_path="[ds] data.vmdk"),)
        yield Step("destroy", "destroyed", "destroyed")
        return DeleteMachineResult(detached_volumes=detached)

    def _there(self, name: str) -> bool:
        about = [line for line in self.effects() if line.endswith(f" {name}")]
        return bool(about) and about[-1].startswith("create")

    def _do(self, effect: str) -> None:
        with (self.folder / "effects").open("a") as file:
            file.write(effect + "\n")


def launch(configured: Settings, folder: Path, **more: str) -> subprocess.Popen[str]:
    """Start a worker process."""
    assert configured.nats is not None
    nats, limits = configured.nats, configured.limits
    given = {
        "NATS__URL": nats.url[0],
        "NATS__ACK_WAIT_SECONDS": str(nats.ack_wait_seconds),
        "VCENTERS__DEFAULT__URL": configured.vcenters["default"].url,
        "VCENTERS__DEFAULT__USER": "u",
        "VCENTERS__DEFAULT__PASSWORD": "p",
        "LIMITS__RETRY_SECONDS": str(limits.retry_seconds),
        "LIMITS__ATTEMPTS": str(limits.attempts),
        "WORKER__HEALTH_HOST": "127.0.0.1",
        "WORKER__HEALTH_PORT": "0",
        "WORKER__DRAIN_SECONDS": str(configured.worker.drain_seconds),
    }
    environment = {f"VSPHERE_FUNCTIONS_{name}": value for name, value in given.items()}
    python_path = filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")])
    paths = {"PYTHONPATH": os.pathsep.join(python_path), "WORLD": str(folder)}
    with (folder / "log").open("a") as log:
        return start(
            [sys.executable, "-m", "support.worker_process"],
            env={**os.environ, **environment, **paths, **more},
            stderr=log,
            stdout=log,
        )


def _dying(at: str) -> Callable[..., Any]:
    publish = Outbox.result

    async def result(*arguments: Any) -> None:
        if at == "published":
            await publish(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    return result


if __name__ == "__main__":
    if os.environ.get("CRASH"):
        Outbox.result = _dying(os.environ["CRASH"])  # type: ignore[method-assign]  # the crash itself
    sys.exit(worker(load(), FileWorld(Path(os.environ["WORLD"])).catalogue()))
