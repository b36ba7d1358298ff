"""`worker` and `engine` as processes: they start, work, and end as they are asked to."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests.cli.harness import COMMAND, Cli, running
from tests.cli.waiting import seed, state
from tests.servers import eventually

FRAGILE = """
import asyncio

from flowfabric.worker import Context, Worker

worker = Worker(lease_ttl_ms=1_000)


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


def test_a_worker_drains_on_sigterm(cli: Cli, project: Path) -> None:
    with running("worker", "jobs:worker", "--url", cli.url, directory=project) as worker:
        napping = cli.submit("nap", "1")
        worker.wait_for("nap begins")
        assert worker.end() == 0
        rest = worker.rest()
    assert "nap ends" in rest
    assert "completed 1" in rest
    assert cli("show", napping, "--json").json["public_state"] == "completed"
    assert cli("workers", "--json").json["workers"] == []


def test_a_second_signal_stops_a_worker_at_once(cli: Cli, project: Path) -> None:
    with running("worker", "jobs", "--url", cli.url, directory=project) as worker:
        cli.submit("nap", "3600")
        worker.wait_for("nap begins")
        worker.process.send_signal(signal.SIGINT)
        eventually(lambda: cli("workers", "--json").json["workers"][0]["slots"] == 64, "it drains and is alive")
        worker.end(signal.SIGINT)
        assert "nap ends" not in worker.rest()


def test_a_worker_tells_what_happens_as_json(cli: Cli, project: Path) -> None:
    with running("worker", "jobs", "--json", "--log-level", "error", "--url", cli.url, directory=project) as worker:
        started = json.loads(worker.wait_for("event"))
        cli.submit("greet", '"ada"')
        worker.wait_for("greeting ada")
        assert worker.end() == 0
        stopped = json.loads(worker.rest())
    assert started["event"] == "worker"
    assert started["tasks"] == ["boom", "greet", "nap"]
    assert started["lanes"] == ["default"]
    assert (stopped["event"], stopped["stats"]["completed"]) == ("stopped", 1)


def test_a_worker_that_cannot_be_imported_ends_with_one_line(cli: Cli, project: Path) -> None:
    (project / "broken.py").write_text("import nothing_like_it\n")
    command = [*COMMAND, "worker", "broken", "--url", cli.url]
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert "No module named 'nothing_like_it'" in ran.stderr


def test_an_engine_promotes_what_was_delayed_and_leaves(cli: Cli) -> None:
    delayed = cli.submit("greet", "--delay", "100ms")
    with running("engine", "--url", cli.url) as engine:
        engine.wait_for("engine")
        eventually(lambda: cli("show", delayed, "--json").json["public_state"] == "waiting", "it is promoted")
        assert "1 alive" in cli("doctor", code=6).stdout
        assert engine.end() == 0
        assert "due_work 1" in engine.rest()
    assert "none is alive" in cli("doctor", code=6).stdout


def test_an_engine_deletes_what_has_ended_long_ago(cli: Cli) -> None:
    ended = cli.submit("greet")
    cli("cancel", ended)
    with running("engine", "--retain", "0s", "--json", "--url", cli.url) as engine:
        assert json.loads(engine.wait_for("event"))["event"] == "engine"
        eventually(lambda: not cli("ls", "--json").json["executions"], "it is deleted")
        assert engine.end(signal.SIGINT) == 0


def test_what_waits_goes_on_when_the_command_line_signals_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    cli.on_store(seed)
    asking = cli.submit("ask")
    with running("worker", "fragile", "--url", cli.url, directory=tmp_path) as worker:
        eventually(lambda: asking in cli("suspended").stdout, "it waits")
        cli("signal", asking, "go", "--payload", '"yes"')
        eventually(lambda: state(cli, asking) == "completed", "it goes on")
        assert worker.end() == 0


def test_another_worker_takes_over_what_a_killed_one_had(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    napping = cli.submit("nap")
    with running("worker", "fragile", "--url", cli.url, directory=tmp_path) as first:
        first.wait_for("nap 0 begins")
        first.end(signal.SIGKILL)
    with (
        running("engine", "--url", cli.url) as engine,
        running("worker", "fragile", "--url", cli.url, directory=tmp_path) as second,
    ):
        second.wait_for("nap 1 begins")
        eventually(lambda: state(cli, napping) == "completed", "it is done")
        assert second.end() == 0
        assert engine.end() == 0
