"""Packages of Debian and its children, where they may be installed without a question: as root, or with `sudo -n`."""

from __future__ import annotations

import os
import shutil
import sys

from scripts.bounded import run

_STEP_S = 300
# The limit is kept by a process of the same user as apt-get: who called sudo may not stop what it started.
_APT_GET = [
    *("env", "DEBIAN_FRONTEND=noninteractive", "timeout", "--kill-after=5", str(_STEP_S), "apt-get", "--quiet=2"),
    *("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "-o", "DPkg::Lock::Timeout=60"),
]


def install(package: str) -> bool:
    """Whether it was installed. What comes over the network is bounded; only then is anything changed."""
    rights = _rights()
    if rights is None:
        return False
    sys.stderr.write(f"{package} is missing: apt-get installs it\n")
    command = [*rights, *_APT_GET]
    run([*command, "update"], _STEP_S + 10)  # lists that are there may do
    given = ["install", "--yes", "--no-install-recommends", package]
    return run([*command, "--download-only", *given], _STEP_S + 10) and run([*command, *given], _STEP_S + 10)


def _rights() -> list[str] | None:
    """The words before apt-get, or None where this user may not call it."""
    if not shutil.which("apt-get"):
        return None
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if run(["sudo", "-n", "true"], 10) else None
