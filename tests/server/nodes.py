"""The node that runs the worker in JavaScript."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import playwright

OLDEST = 18  # the first that knows fetch
WITHIN_S = 30


async def find_node() -> str | None:
    """The system's, else the one that playwright brings along for itself."""
    own = Path(playwright.__file__).parent / "driver" / "node"
    for path in (shutil.which("node"), shutil.which(own)):
        if path and await _major(path) >= OLDEST:
            return path
    return None


async def _major(path: str) -> int:
    process = await asyncio.create_subprocess_exec(path, "--version", stdout=asyncio.subprocess.PIPE)
    said, _ = await asyncio.wait_for(process.communicate(), WITHIN_S)
    return int(said.decode().lstrip("v").partition(".")[0] or 0)
