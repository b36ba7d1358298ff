"""The examples run as they are printed, and the demo tells the truth."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples import fleet
from flowfabric import FlowFabricError, Handle, Worker
from flowfabric.testing import FabricKit

pytest_plugins = ["flowfabric.testing.pytest_plugin"]

ROOT = Path(__file__).resolve().parents[3]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *command]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_the_quickstart_prints_its_result() -> None:
    done = run("examples/quickstart.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "tides come and go,\n", "")


def test_the_quickstart_fits_on_a_page() -> None:
    lines = (ROOT / "examples/quickstart.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 22


def test_the_demo_approves_itself_where_nobody_sits() -> None:
    done = run("-m", "examples.demo", "--port", "0", "--unattended", "--speed", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "waits for an approval" in done.stdout
    assert "Published: A report of 5 findings." in done.stdout


def test_a_fleet_loses_a_worker_and_nothing_else() -> None:
    done = run("examples/fleet.py", "--tasks", "60", "--workers", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed with -9" in done.stdout
    assert "0 waiting, 0 active, 60 completed, 0 failed" in done.stdout
    assert "Nothing was lost, and each was completed exactly once" in done.stdout


def test_a_fleet_too_small_to_see_something_is_refused() -> None:
    done = run("examples/fleet.py", "--workers", "1")
    assert done.returncode == 2
    assert "at least 50 tasks and 2 workers" in done.stderr


@pytest.fixture
async def finished_fleet(fabric_kit: FabricKit) -> fleet.Fleet:
    """Three executions that were completed, without a worker that died."""
    worker = Worker([fleet.LANE])
    worker.add(fleet.render)
    outcomes = await fabric_kit.submit_many(fleet.render, [(0,), (1,), (2,)])
    await fabric_kit.run_until_idle(worker)
    handles: list[Handle[str]] = [each for each in outcomes if not isinstance(each, FlowFabricError)]
    return fleet.Fleet(fabric_kit, {}, handles)


async def test_the_fleet_finds_nothing_wrong_where_nothing_is(finished_fleet: fleet.Fleet) -> None:
    assert await fleet.check_log(finished_fleet) == []


async def test_the_fleet_notices_what_is_lost(finished_fleet: fleet.Fleet) -> None:
    lost = await finished_fleet.fabric.submit(fleet.render, 3)
    finished_fleet.handles.append(lost)
    assert await fleet.check_log(finished_fleet) == [f"lost: {lost.id} (completed)", f"{lost.id} has the result None"]


async def test_the_fleet_notices_what_is_doubled(finished_fleet: fleet.Fleet) -> None:
    assert isinstance(finished_fleet.fabric, FabricKit)
    doubled = finished_fleet.handles[1]
    await doubled.replay()
    worker = Worker([fleet.LANE])
    worker.add(fleet.render)
    await finished_fleet.fabric.run_until_idle(worker)
    assert await fleet.check_log(finished_fleet) == [f"doubled or not completed: {doubled.id} (completed)"]


async def test_the_fleet_notices_that_nothing_was_taken_over(finished_fleet: fleet.Fleet) -> None:
    assert await fleet.check_takeovers(finished_fleet) == ["from None 0 were taken over, 0 of them by itself"]
