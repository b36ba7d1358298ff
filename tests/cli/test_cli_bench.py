"""`bench` measures, and leaves the store as it was."""

from __future__ import annotations

from tests.cli.harness import Cli, has_shape

STEP = {"seconds": "float", "per_second": "int", "cpu_us_per_task": "float"}
SPREAD = {"p50": "float", "p99": "float"}
GOLDEN = {
    "url": "str",
    "tasks": "int",
    "concurrency": "int",
    "submit": STEP,
    "run": STEP,
    "single": {"samples": "int", "start_ms": SPREAD, "result_ms": SPREAD},
}


def test_bench_measures_and_leaves_nothing_behind(cli: Cli) -> None:
    kept = cli.submit("greet")
    told = cli("bench", "--tasks", "50", "--concurrency", "8", "--json").json
    assert has_shape(told, GOLDEN)
    assert (told["tasks"], told["single"]["samples"]) == (50, 50)
    assert [each["execution_id"] for each in cli("ls", "--json").json["executions"]] == [kept]
    assert cli("workers", "--json").json["workers"] == []


def test_bench_prints_a_table(cli: Cli) -> None:
    lines = cli("bench", "--tasks", "1").stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == ["STEP", "submit", "run", "submit to start", "submit to result"]


def test_bench_gives_up_in_time_and_leaves_nothing_behind_either(cli: Cli) -> None:
    ran = cli("bench", "--tasks", "100000", "--within", "10ms", code=7)
    assert "not done within 10ms" in ran.stderr
    assert cli("ls", "--json").json["executions"] == []
