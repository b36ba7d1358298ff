"""What the benchmarks calculate from their samples, and how they talk to the programs they measure."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks import latency, throughput
from benchmarks.figures import NOTHING, Run, Sample, Spread, dearer, faster, in_turn, percentile, ratio
from benchmarks.peers import install, report
from benchmarks.peers.driver import NOT_INSTALLED, Bench, ProgramFailed, bench
from benchmarks.peers.protocol import Job, Probe, concurrently
from benchmarks.peers.report import Goal, Table
from benchmarks.peers.results import Results, per_second, take_turns
from benchmarks.peers.systems import OURS, SYSTEMS, System


def sample(lives: int = 100, cpu_us: float = 1000.0, seconds: float = 1.0) -> Sample:
    return Sample(lives, cpu_us, seconds, wire_bytes=50.0 * lives)


def test_samples_add_up() -> None:
    both = NOTHING + sample(100, 1000.0, 0.5) + sample(300, 1000.0, 1.5)
    assert both == Sample(400, 2000.0, 2.0, 20_000.0)
    assert (both.cpu_per_life, both.lives_per_second, both.bytes_per_life) == (5.0, 200.0, 50.0)


def test_a_ratio_is_that_of_the_sums_and_not_the_mean_of_the_ratios() -> None:
    mine = sample(cpu_us=100.0) + sample(cpu_us=1000.0)
    theirs = sample(cpu_us=100.0) + sample(cpu_us=400.0)
    assert dearer([mine], [theirs]).median == pytest.approx(2.2)


def test_repetitions_give_a_median_and_a_spread() -> None:
    mine = [sample(cpu_us=us) for us in (3000.0, 1000.0, 2000.0)]
    assert dearer(mine, [sample()] * 3) == Spread(2.0, 1.0, 3.0)


def test_a_repetition_is_compared_with_the_same_repetition() -> None:
    slow_then_quick = [sample(cpu_us=2000.0), sample(cpu_us=1000.0)]
    assert dearer(slow_then_quick, slow_then_quick) == Spread(1.0, 1.0, 1.0)


def test_faster_is_more_lives_in_the_same_time_whatever_the_number_of_lives() -> None:
    assert faster([sample(200, seconds=1.0)], [sample(100, seconds=2.0)]).median == 4.0


def test_repetitions_that_do_not_match_are_refused() -> None:
    with pytest.raises(ValueError, match="longer"):
        dearer([sample()], [sample(), sample()])


def test_a_spread_is_shown_with_its_ends() -> None:
    assert str(Spread(1.0, 0.9, 1.25)) == "1.00 (0.90-1.25)"


def test_everybody_begins_equally_often() -> None:
    orders = [in_turn("abc", turn) for turn in range(6)]
    assert orders[:3] == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]
    assert orders[3:] == orders[:3]


def test_a_percentile_is_one_of_the_values() -> None:
    assert [percentile([4.0, 1.0, 3.0, 2.0], share) for share in (0.01, 0.5, 0.75, 0.99)] == [1.0, 2.0, 3.0, 4.0]


def test_a_ratio_is_taken_within_a_repetition() -> None:
    assert ratio([10.0, 40.0, 90.0], [10.0, 20.0, 30.0]) == Spread(2.0, 1.0, 3.0)


def run(per_second: float = 100.0, latencies_us: tuple[float, ...] = ()) -> Run:
    return Run(100, 100 / per_second, 4_000.0, 2_000.0, latencies_us)


def measured(**rates: float) -> Results:
    results = Results()
    for name, rate in rates.items():
        results.add(name, {role: run(rate) for role in ("work", "bulk", "concurrent")})
    return results


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("enough", Spread(5.0, 1.0, 9.0), 5), True),
        (Goal("too little", Spread(4.9, 1.0, 9.0), 5), False),
        (Goal("not too much", Spread(40.0, 1.0, 90.0), 40, at_least=False), True),
        (Goal("too much", Spread(41.0, 1.0, 90.0), 40, at_least=False), False),
        (Goal("not measured", None, 5), None),
    ],
    ids=lambda value: value.name if isinstance(value, Goal) else "",
)
def test_a_goal_is_judged_by_the_median(goal: Goal, met: bool | None) -> None:
    assert goal.met is met


def test_we_are_compared_with_the_fastest_of_the_python_systems() -> None:
    results = measured(flowfabric=1000.0, taskiq=100.0, dramatiq=200.0, bullmq=500.0, saq=50.0)
    assert throughput.best_python(results) == "dramatiq"
    figures = {goal.name: goal.figure and goal.figure.median for goal in throughput.goals(results)}
    assert list(figures.values()) == pytest.approx([5.0, 2.0, 40.0, 2.0, 20.0])


def test_without_the_others_only_our_own_goals_are_judged() -> None:
    assert [goal.met for goal in throughput.goals(measured(flowfabric=1.0))] == [None, None, True, None, None]


def test_latency_goals_are_about_the_ends_of_the_distribution() -> None:
    results = Results()
    results.add(OURS, {latency.PACED: run(latencies_us=(*[1_000.0] * 98, 3_000.0, 9_000.0))})
    results.add("taskiq", {latency.PACED: run(latencies_us=(2_000.0,) * 100)})
    assert [goal.figure and goal.figure.median for goal in latency.goals(results)] == [0.5, 3.0]


def test_a_plain_table_is_aligned_by_column(capsys: pytest.CaptureFixture[str]) -> None:
    Table("title", ("system", "tasks/s"), [("ours", "1,000"), ("another one", "9")]).show()
    assert capsys.readouterr().out == "title\n\nsystem       tasks/s\nours           1,000\nanother one        9\n\n"


def test_an_unknown_system_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    parser = report.options("doc")
    assert [system.name for system in parser.parse_args(["--only", "taskiq,flowfabric"]).only] == [OURS, "taskiq"]
    with pytest.raises(SystemExit):
        parser.parse_args(["--only", "celery"])
    assert "unknown system 'celery': there are flowfabric, taskiq" in capsys.readouterr().err


async def test_a_system_that_fails_once_loses_its_figures_and_the_others_go_on() -> None:
    turns: list[str] = []

    async def turn(system: System) -> dict[str, Run]:
        turns.append(system.name)
        if system.name == "taskiq" and turns.count("taskiq") == 2:
            raise ProgramFailed("it fell over")
        return {"work": run()}

    both = [system for system in SYSTEMS if system.name in (OURS, "taskiq")]
    results = await take_turns(both, 4, 60.0, turn)
    assert results.failures == {"taskiq": "it fell over"}
    assert results.values("taskiq", "work", per_second) == []
    assert len(results.values(OURS, "work", per_second)) == 4
    assert turns.count("taskiq") == 2


@pytest.mark.parametrize(("budget_s", "repetitions"), [(1.0, 1), (29.0, 2), (30.0, 3), (1000.0, 4)])
async def test_repetitions_that_do_not_fit_into_the_budget_are_left_out(budget_s: float, repetitions: int) -> None:
    now = 0.0

    async def turn(_: System) -> dict[str, Run]:
        nonlocal now
        now += 10.0
        return {"work": run()}

    results = await take_turns(SYSTEMS[:1], 4, budget_s, turn, clock=lambda: now)
    assert (results.repetitions, len(results.values(OURS, "work", per_second))) == (repetitions, repetitions)


def test_a_peer_counts_as_installed_with_the_pinned_versions_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "home", lambda: tmp_path)
    assert install.installed("saq") is None
    (tmp_path / "saq").mkdir()
    (tmp_path / "saq" / install.READY).write_text(install.wanted("saq"))
    assert install.installed("saq") == tmp_path / "saq"
    (tmp_path / "pins.txt").write_text("saq==0.0.1")
    monkeypatch.setitem(install.PINS, "saq", tmp_path / "pins.txt")
    assert install.installed("saq") is None


def test_every_peer_has_its_pins() -> None:
    assert set(install.PINS) == {system.name for system in SYSTEMS} - {OURS}


def test_the_probe_reports_after_the_last_task(capsys: pytest.CaptureFixture[str]) -> None:
    ended: list[str] = []
    probe = Probe(2, lambda: ended.append("done"))
    probe(1)
    assert (capsys.readouterr().out, ended) == ("", [])
    probe(0)
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["tasks"], len(told["latencies_us"]), ended) == ("done", 2, 1, ["done"])


async def test_single_submits_keep_as_many_in_flight_as_wanted() -> None:
    now, most, total = 0, 0, 0

    async def submit(_: int) -> None:
        nonlocal now, most, total
        now, total = now + 1, total + 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    await concurrently(submit, Job("concurrent", "", tasks=200, in_flight=8))
    assert (most, total) == (8, 200)


class Scripted(System):
    """A system whose program is its name."""

    def command(self) -> list[str] | None:
        return [sys.executable, "-c", self.program] if self.program else None


def scripted(*lines: str) -> Scripted:
    talk = "import json, sys\nsay = lambda **told: print(json.dumps(told), flush=True)\n"
    return Scripted("scripted", talk + "\n".join(lines), ())


READY = "say(event='ready', versions={'it': '1'}, settings={'slots': 2}); assert sys.stdin.readline() == 'go\\n'"
DONE = "say(event='done', tasks=json.loads(sys.argv[1])['tasks'], seconds=2.0, cpu_us=30.0)"


async def test_a_program_is_run_from_the_order_to_its_report() -> None:
    async with bench("no") as at:
        taken = await at.run(scripted(READY, DONE), "work", 7)
    assert (taken.tasks, taken.seconds, taken.cpu_us) == (7, 2.0, 30.0)
    assert taken.server_us >= 0
    assert at.facts == {"scripted": {"versions": {"it": "1"}, "settings": {"work": {"slots": 2}}}}


@pytest.mark.parametrize(
    ("system", "reason"),
    [
        (scripted("sys.exit('no server')"), "scripted work: ended before it was ready: no server"),
        (scripted(READY), "scripted work: ended before it was done: without a word"),
        (scripted(DONE), "said 'done' instead of 'ready'"),
        (Scripted("scripted", "", ()), NOT_INSTALLED),
    ],
    ids=["dies", "falls silent", "talks nonsense", "not installed"],
)
async def test_a_program_that_fails_says_why(system: System, reason: str) -> None:
    never_asked: Bench = Bench(Unasked(), "redis://nowhere")  # type: ignore[arg-type]
    with pytest.raises(ProgramFailed, match=reason):
        await never_asked.run(system, "work", 1)


class Unasked:
    async def info(self, *_: str) -> dict[str, float]:
        return {"used_cpu_user_main_thread": 0.0, "used_cpu_sys_main_thread": 0.0}


async def test_throughput_of_ours_alone_needs_nothing_that_is_not_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "installed", lambda _: None)
    options = ["--only", "flowfabric,saq", "--tasks", "300", "--repetitions", "2", "--json"]
    monkeypatch.setattr(sys, "argv", ["throughput", *options])
    await throughput.main()
    told = json.loads(capsys.readouterr().out)
    assert told["failures"] == {"saq": NOT_INSTALLED}
    runs = told["runs"][OURS]
    assert {role: [run["tasks"] for run in taken] for role, taken in runs.items()} == {
        "bulk": [300, 300],
        "concurrent": [300, 300],
        "work": [300, 300],
    }


async def test_latency_is_that_of_every_task_after_the_first_second(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--only", OURS, "--rate", "100", "--seconds", "0.5", "--repetitions", "1", "--json"]
    monkeypatch.setattr(sys, "argv", ["latency", *options])
    await latency.main()
    (run,) = json.loads(capsys.readouterr().out)["runs"][OURS][latency.PACED]
    assert (run["tasks"], len(run["latencies_us"])) == (150, 50)


def test_what_is_not_installed_says_so_in_the_table_and_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    results = measured(flowfabric=1000.0)
    results.fail("saq", NOT_INSTALLED)
    rows = [throughput.row(results, system) for system in SYSTEMS if system.name in (OURS, "saq")]
    given = report.options("").parse_args([])
    report.publish(given, results, {}, Table("title", throughput.HEADS, rows), throughput.goals(results))
    out = capsys.readouterr().out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("saq ")] == [["saq", "not", "installed"]]
    assert "saq: not installed: python -m benchmarks.peers.install" in out
