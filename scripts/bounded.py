"""Run a command that may need the network: never for ever, and without a terminal at which it could ask."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress


def run(command: list[str], seconds: float) -> bool:
    """Whether it ended well in time. If it did not end, it is stopped with everything it started."""
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError:
        return False
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):  # what sudo started is not ours to stop
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
