"""A store of the command line's own, and a server in front of it: their clock goes, unlike that of the other suites."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import valkey

from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.client.fabric import Fabric
from flowfabric.core.partition import PartitionConfig
from tests.cli.harness import Cli
from tests.http_server import HttpServer


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> None:
    """What a shell runs in the background ignores them, and so would the commands that are interrupted here."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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


@pytest.fixture(scope="session")
def cli_http_server(cli_server: EmbeddedServer) -> Iterator[HttpServer]:
    server = HttpServer(f"embedded://{cli_server.directory}", manual_clock=False)
    yield server
    server.stop()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "store_only(reason): a test of commands that makes no sense on a server's URL")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test of commands runs twice: on a store, and on the URL of a server in front of it."""
    if "cli" in metafunc.fixturenames:
        on_store_only = metafunc.definition.get_closest_marker("store_only") is not None
        metafunc.parametrize("cli", ["store"] if on_store_only else ["store", "server"], indirect=True)


@pytest.fixture
def cli(request: pytest.FixtureRequest, cli_server: EmbeddedServer) -> Cli:
    """Commands on an empty store."""
    with valkey.Valkey(unix_socket_path=str(cli_server.socket_path)) as client:
        client.flushall()
    if request.param == "store":
        return Cli(f"embedded://{cli_server.directory}")
    server: HttpServer = request.getfixturevalue("cli_http_server")
    server.call(server.begin_here(PartitionConfig()))
    return Cli(server.url)


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run in a directory that has no store of `dev`, in an environment that names none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLOWFABRIC_URL", raising=False)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A command that runs here sets up logging, which would print what the server of another test logs."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a module of tasks."""
    (tmp_path / "jobs.py").write_text(TASKS)
    return tmp_path
