"""See that a browser starts for the tests of the dashboard; where none does, fetch one: `make test` calls this first.

Debian's Chromium where apt-get may install it, else playwright's own. Where neither works, the table of suites says
that the tests of the dashboard did not run.
"""

from __future__ import annotations

import asyncio
import os
import sys

from scripts import apt, bounded
from tests.browsers import opened_browser

_DOWNLOAD_S = 300


async def _starts() -> bool:
    async with opened_browser() as browser:
        return browser is not None


def starts() -> bool:
    return asyncio.run(_starts())


def install_of_playwright() -> bool:
    sys.stderr.write("no browser starts: playwright downloads one\n")
    libraries = ["--with-deps"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "playwright", "install", *libraries, "--only-shell", "chromium"]
    return bounded.run(command, _DOWNLOAD_S)


def main() -> None:
    if not (starts() or (apt.install("chromium") and starts()) or (install_of_playwright() and starts())):
        sys.stderr.write("no browser: the tests of the dashboard will not run; install Chromium for them\n")


if __name__ == "__main__":
    main()
