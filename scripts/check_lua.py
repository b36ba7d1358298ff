"""Check the Lua with luacheck, which is fetched where it is missing and may be; else say that it did not run."""

from __future__ import annotations

import shutil
import subprocess
import sys

from scripts import apt
from scripts.ci import in_ci

LUA = "src/flowfabric/backends/valkey/lua"


def luacheck() -> str | None:
    return shutil.which("luacheck") or (shutil.which("luacheck") if apt.install("lua-check") else None)


def main() -> int:
    command = luacheck()
    if command is None:
        sys.stdout.write("Lua: not run: no luacheck (apt-get install lua-check)\n")
        return 1 if in_ci() else 0
    return subprocess.call([command, "--quiet", "--no-color", LUA])


if __name__ == "__main__":
    sys.exit(main())
