"""The command line on a server's address: the same commands, and a worker that needs no access to the store."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import valkey

from flowfabric.backends.valkey.embedded import EmbeddedServer
from flowfabric.client.secrets import ensure_secret
from flowfabric.config import Settings
from tests.cli.harness import Cli, run, running
from tests.http_server import HttpServer
from tests.servers import eventually

TASKS = """
import asyncio

from flowfabric.worker import Context, Worker

worker = Worker(lease_ttl_ms=1_000)


@worker.task
async def greet(ctx: Context, name: str) -> str:
    await ctx.emit(f"hello {name}")
    return f"hello {name}"


@worker.task(retry=0)
async def ask(ctx: Context) -> str:
    return (await ctx.wait_for_signal("go")).payload


@worker.task
async def nap(ctx: Context) -> str:
    print(f"nap {ctx.attempt_index} begins", flush=True)
    if ctx.attempt_index == 0:
        await asyncio.sleep(3600)
    return f"attempt {ctx.attempt_index}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    store = asyncio.run(EmbeddedServer.join(tmp_path_factory.mktemp("cli-http")))
    with valkey.Valkey(unix_socket_path=str(store.socket_path)) as client:
        client.flushall()
    server = HttpServer(f"embedded://{store.directory}")
    yield server
    server.stop()
    asyncio.run(store.leave())


@pytest.fixture
def cli(server: HttpServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLOWFABRIC_URL", raising=False)
    (tmp_path / "jobs.py").write_text(TASKS)
    return Cli(server.url)


def test_an_execution_is_steered_from_the_command_line(cli: Cli, tmp_path: Path) -> None:
    greeted = cli.submit("greet", '"ada"')
    assert cli("show", greeted, "--json").json["public_state"] == "waiting"
    assert "no live worker" in cli("explain", greeted).stdout
    assert cli("ls", "--json").json["executions"][0]["execution_id"] == greeted
    other = cli.submit("greet", '"linus"')
    cli("cancel", other)
    with running("worker", "jobs", "--url", cli.url, directory=tmp_path) as worker:
        worker.wait_for("runs")
        assert "hello ada" in cli("tail", greeted).stdout
        assert json.loads(cli("events", greeted, "--follow", "--json").stdout.splitlines()[-1])["event"] == "completed"
        assert len(cli("workers", "--json").json["workers"]) == 1
        assert worker.end() == 0
    assert cli("show", greeted, "--json").json["public_state"] == "completed"
    cli("replay", greeted)
    cli("lanes", "pause", "default")
    assert "paused" in cli("lanes").stdout
    cli("lanes", "resume", "default")
    cli("cancel", greeted)


def test_an_execution_that_waits_is_signalled_from_the_command_line(
    cli: Cli, server: HttpServer, tmp_path: Path
) -> None:
    seeding = ensure_secret(server.backend, Settings(url=cli.url, waitpoint_secret="ab" * 32))
    server.call(seeding)
    asking = cli.submit("ask")
    with running("worker", "jobs", "--url", cli.url, directory=tmp_path) as worker:
        eventually(lambda: asking in cli("suspended").stdout, "it waits")
        assert "go" in cli("waitpoints", asking).stdout
        link = cli("link", asking, "go").stdout.strip()
        assert "token=" in link
        cli("signal", asking, "go", "--payload", '"yes"')
        eventually(lambda: cli("show", asking, "--json").json["public_state"] == "completed", "it goes on")
        assert worker.end() == 0


def test_the_doctor_looks_at_the_server(cli: Cli) -> None:
    checks = {each["name"]: each for each in cli("doctor", "--json", code=6).json["checks"]}
    assert checks["connection"]["found"].startswith(cli.url)
    assert (checks["server"]["status"], checks["ready"]["status"]) == ("ok", "ok")
    assert {"partitions", "engine", "workers"} <= checks.keys()


def test_a_server_that_is_not_there_is_told_in_one_line(cli: Cli) -> None:
    ran = run("ls", "--url", "http://user:secret@127.0.0.1:1")
    assert (ran.code, ran.stderr.count("\n")) == (6, 1)
    assert "secret" not in ran.stderr


def test_another_worker_takes_over_what_a_killed_one_had(cli: Cli, server: HttpServer, tmp_path: Path) -> None:
    napping = cli.submit("nap")
    with running("worker", "jobs", "--url", cli.url, directory=tmp_path) as first:
        first.wait_for("nap 0 begins")
        first.end(signal.SIGKILL)
    with (
        running("engine", "--url", cli.url) as engine,
        running("worker", "jobs", "--url", cli.url, directory=tmp_path) as second,
    ):
        second.wait_for("nap 1 begins")
        eventually(lambda: cli("show", napping, "--json").json["public_state"] == "completed", "it is done")
        assert second.end() == 0
        assert engine.end() == 0
