"""Make the virtual environment, `python3 -m scripts.environment .venv`, or say what this Python lacks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

from scripts import apt

OLDEST = (3, 11)


def problem() -> str | None:
    version = ".".join(str(part) for part in sys.version_info[:2])
    if sys.version_info[:2] < OLDEST:
        return f"{sys.executable} is Python {version}, and 3.11 is the oldest that will do: make PYTHON=python3.12 ..."
    package = f"python{version}-venv"  # Debian keeps this part of Python in a package of its own
    if importlib.util.find_spec("ensurepip") is None and not apt.install(package):
        return f"{sys.executable} comes without ensurepip, a part of Python: apt-get install {package}"
    return None


if __name__ == "__main__":
    sys.exit(problem() or subprocess.call([sys.executable, "-m", "venv", sys.argv[1]]))
