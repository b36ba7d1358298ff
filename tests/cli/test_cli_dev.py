"""`dev` as a process: it starts, reloads, recovers and stops, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import httpx

from tests.cli.conftest import TASKS
from tests.cli.harness import Cli, Running, run, running
from tests.servers import eventually, is_alive, kill9

STARTED = "started as process"
READY = "runs boom, greet, nap"
PAGE = Path(__file__).resolve().parents[2] / "docs/howto/dev.md"


def worker_pid(dev: Running) -> int:
    found = re.search(rf"{STARTED} (\d+)", dev.wait_for(STARTED))
    assert found is not None
    return int(found[1])


def test_dev_runs_store_engine_and_worker_and_other_commands_find_them(project: Path) -> None:
    with running("dev", "jobs", directory=project) as dev:
        dev.wait_for("store")
        dev.wait_for("engine")
        pid = worker_pid(dev)
        dev.wait_for(READY)
        # In the same directory no URL is needed.
        assert run("submit", "greet", '"ada"', "--wait").stdout == '"hello ada"\n'
        dev.wait_for("greeting ada")
        dev.wait_for("default: completed 1")
        assert "fail" not in run("doctor").stdout
        assert dev.end(signal.SIGINT) == 0
        assert "store, engine and worker have stopped" in dev.rest()
    assert not is_alive(pid)
    assert not any("\x1b" in line for line in dev.lines)
    assert len(run("ls", "--json").json["executions"]) == 1  # its data stays


def test_dev_serves_the_dashboard_and_the_api(project: Path) -> None:
    with running("dev", "jobs", "--port", "0", "--url", "embedded://", directory=project) as dev:
        found = re.search(r"http://127\.0\.0\.1:\d+", dev.wait_for("dashboard at"))
        assert found is not None
        dev.wait_for(READY)
        assert "FlowFabric" in httpx.get(found[0]).text
        submitted = httpx.post(f"{found[0]}/v1/executions", json={"task": "greet", "args": ["ada"]})
        assert submitted.status_code == 201
        dev.wait_for("greeting ada")
        assert dev.end() == 0
        dev.rest()


def test_dev_serves_nothing_when_told_so(project: Path) -> None:
    with running("dev", "jobs", "--no-server", "--url", "embedded://", directory=project) as dev:
        dev.wait_for(READY)
        assert dev.end() == 0
        assert "dashboard" not in dev.rest()


def test_dev_reloads_when_a_file_changes(project: Path) -> None:
    with running("dev", "jobs:worker", "--url", "embedded://", directory=project) as dev:
        dev.wait_for(READY)
        (project / "helper.py").write_text("x = 1\n")
        assert "helper.py changed" in dev.wait_for("reload")
        dev.wait_for(READY)
        (project / "jobs.py").write_text(TASKS.replace("async def nap", "async def sleep"))
        dev.wait_for("jobs.py changed")
        dev.wait_for("runs boom, greet, sleep")
        assert dev.end() == 0
        dev.rest()


def test_dev_waits_for_better_code(project: Path) -> None:
    (project / "jobs.py").write_text("x = = 1\n")
    with running("dev", "jobs", "--url", "embedded://", directory=project) as dev:
        dev.wait_for("invalid syntax")
        dev.wait_for("exited with 2")
        (project / "jobs.py").write_text(TASKS)
        dev.wait_for(READY)
        assert dev.end() == 0
        dev.rest()


def test_a_killed_worker_is_started_again(project: Path) -> None:
    with running("dev", "jobs", "--no-reload", "--url", "embedded://", directory=project) as dev:
        first = worker_pid(dev)
        dev.wait_for(READY)
        kill9(first)
        dev.wait_for("killed by signal 9")
        assert worker_pid(dev) != first
        dev.wait_for(READY)
        assert dev.end() == 0
        dev.rest()


def test_what_runs_may_end_and_a_second_signal_does_not_wait_for_it(cli: Cli, project: Path) -> None:
    with running("dev", "jobs", "--url", cli.url, directory=project) as dev:
        dev.wait_for(READY)
        cli.submit("nap", "3600")
        dev.wait_for("nap begins")
        dev.process.send_signal(signal.SIGINT)
        dev.wait_for("stopping")
        assert dev.end(signal.SIGINT) == 0
        assert "nap ends" not in dev.rest()


def test_the_worker_ends_with_a_dev_that_was_killed(cli: Cli, project: Path) -> None:
    with running("dev", "jobs", "--url", cli.url, directory=project) as dev:
        pid = worker_pid(dev)
        dev.wait_for(READY)
        kill9(dev.pid)
        eventually(lambda: not is_alive(pid), "the worker ends", 60)
        dev.rest()


def test_dev_tells_what_happens_as_json(project: Path) -> None:
    with running("dev", "jobs", "--json", "--log-level", "error", "--url", "embedded://", directory=project) as dev:
        dev.wait_for("runs boom")
        assert dev.end() == 0
        dev.rest()
    events = [json.loads(line) for line in dev.lines]
    assert [each["event"] for each in events if each["event"] != "lanes"] == [
        *("store", "engine", "server", "worker", "output", "stopping", "output", "stopped")
    ]


def test_without_a_module_there_are_store_and_engine(tmp_path: Path) -> None:
    with running("dev", directory=tmp_path) as dev:
        dev.wait_for("engine")
        assert run("submit", "greet").code == 0
        dev.wait_for("default: waiting 1")
        assert dev.end() == 0
        dev.rest()


def test_a_module_that_is_not_there_is_told_at_once(project: Path) -> None:
    ran = run("dev", "not_there")
    assert ran.code == 2
    assert "no module named 'not_there'" in ran.stderr


def test_the_module_of_the_page_runs(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "tasks.py").write_text(source)
    with running("dev", "tasks", directory=tmp_path) as dev:
        dev.wait_for("runs add, greet")
        assert run("submit", "greet", '"ada"', "--wait").stdout == '"hello ada"\n'
        assert run("submit", "add", "--kwargs", '{"a": 1, "b": 2}', "--wait").stdout == "3\n"
        assert dev.end() == 0
        dev.rest()
