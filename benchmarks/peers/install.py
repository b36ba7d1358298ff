"""Install what we are compared with, outside of the tree and of our own environment.

    python -m benchmarks.peers.install [names]

One virtual environment or node_modules folder a peer, since their dependencies exclude each other, in a folder of the
system's place for temporary files. pip and npm do it, as configured on this machine. What cannot be installed is said
and left out; the benchmarks then show it as not installed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE / "package.json"
PINS = {path.stem: path for path in sorted((HERE / "requirements").glob("*.txt"))} | {"bullmq": PACKAGE}
NPM = ("npm", "install", "--silent", "--no-audit", "--no-fund", "--no-save")
READY = "installed"


def home() -> Path:
    return Path(tempfile.gettempdir()) / f"flowfabric-peers-{os.getuid()}"


def installed(name: str) -> Path | None:
    """Where a peer is, if all of it is there in the versions that are pinned now, and nobody else put it there."""
    mark = home() / name / READY
    if not mark.is_file() or home().stat().st_uid != os.getuid() or mark.read_text() != wanted(name):
        return None
    return mark.parent


def wanted(name: str) -> str:
    return hashlib.sha256(PINS[name].read_bytes() + sys.version.encode()).hexdigest()


def install(name: str) -> None:
    home().mkdir(mode=0o700, exist_ok=True)
    if home().stat().st_uid != os.getuid():
        raise PermissionError(f"{home()} belongs to somebody else: remove it")
    folder = home() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if PINS[name] == PACKAGE:
        shutil.copy(PACKAGE, folder)
        subprocess.run(NPM, cwd=folder, check=True)
    else:
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "-r", PINS[name]], check=True)
    (folder / READY).write_text(wanted(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(PINS)}; all when none is given")
    names = parser.parse_args().names
    for unknown in set(names) - set(PINS):
        parser.error(f"unknown peer {unknown!r}: there are {', '.join(PINS)}")
    for name in names or PINS:
        if installed(name) is None:
            print(f"{name}: installing into {home() / name}")
            try:
                install(name)
            except (OSError, subprocess.CalledProcessError) as failure:
                print(f"{name}: not installed: {failure}")
                continue
        print(f"{name}: installed")


if __name__ == "__main__":
    main()
