"""The command line: `flowfabric`, installed with `pip install 'flowfabric[cli]'`."""

from __future__ import annotations

import sys

from flowfabric.errors.packages import EXTRAS


def main() -> None:
    """Run a command and end the process with its exit code."""
    try:
        from flowfabric.cli.app import app  # noqa: PLC0415 - a missing extra gets a clear message
    except ModuleNotFoundError as error:
        if EXTRAS.get(error.name or "") != "cli":
            raise
        sys.exit(f"flowfabric: the command line needs {error.name}: pip install 'flowfabric[cli]'")
    app(prog_name="flowfabric")
