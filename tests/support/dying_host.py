"""The HTTP router on the port that is given, killed as it writes a dead letter: DIES=before|after it is written."""

import os
import signal
import sys
from typing import Any

from vsphere_functions.hosts.http import serve
from vsphere_functions.hosts.nats_outbox import Outbox
from vsphere_functions.runtime import telemetry
from vsphere_functions.runtime.settings_load import load

_write = Outbox.dead


async def _die(*arguments: Any, **more: Any) -> None:
    if os.environ["DIES"] == "after":
        await _write(*arguments, **more)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    telemetry.configure()
    Outbox.dead = _die  # type: ignore[method-assign]  # the death itself
    serve(load(), "127.0.0.1", int(sys.argv[1]))
