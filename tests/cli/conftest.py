"""A store of the command line's own: its clock goes, unlike that of the other suites."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import valkey

from flowfabric.backends.valkey.embedded import EmbeddedServer
from flowfabric.client.fabric import Fabric
from tests.cli.harness import Cli

TASKS = """
import asyncio

from flowfabric.worker import Worker

worker = Worker(grace=3600)


@worker.task
async def greet(name: str) -> str:
    print(f"greeting {name}", flush=True)
    return f"hello {name}"


@worker.task
async def boom() -> None:
    raise ValueError("on purpose")


@worker.task
async def nap(seconds: float) -> str:
    print("nap begins", flush=True)
    await asyncio.sleep(seconds)
    print("nap ends", flush=True)
    return "rested"
"""


@pytest.fixture(scope="session")
def cli_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    server = asyncio.run(EmbeddedServer.join(tmp_path_factory.mktemp("cli")))
    asyncio.run(_connected_once(f"embedded://{server.directory}"))
    yield server
    asyncio.run(server.leave())


async def _connected_once(url: str) -> None:
    """The first client brings the library, whichever test comes first."""
    async with Fabric.connect(url):
        pass


@pytest.fixture
def cli(cli_server: EmbeddedServer) -> Cli:
    """Commands on an empty store."""
    with valkey.Valkey(unix_socket_path=str(cli_server.socket_path)) as client:
        client.flushall()
    return Cli(f"embedded://{cli_server.directory}")


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a directory that has no store of `dev`, in an environment that names none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLOWFABRIC_URL", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a module of tasks."""
    (tmp_path / "jobs.py").write_text(TASKS)
    return tmp_path
