"""How many no-op tasks a second does one worker process run, and how many can be submitted? Ours beside others.

    python -m benchmarks.peers.install            once: taskiq, Dramatiq, SAQ and BullMQ, outside of the tree
    python -m benchmarks.throughput [--json] [--tasks 20000] [--repetitions 3] [--only flowfabric,taskiq] [--aof no]

Everybody uses one server over TCP and takes turns. A queue is filled first, then one worker process empties it:
tasks per second from the first start to the last end, and the processor time of worker and server in between.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from benchmarks.figures import Run
from benchmarks.peers import report
from benchmarks.peers.driver import Bench, bench
from benchmarks.peers.report import Goal, whole
from benchmarks.peers.results import Results, per_second, server_us, take_turns, worker_us
from benchmarks.peers.systems import BULLMQ, OURS, SAQ, SYSTEMS, System

HEADS = ("system", "tasks/s", "ours x", "worker us/task", "server us/task", "bulk submits/s", "64 single submits/s")


async def one_turn(bench: Bench, system: System, tasks: int) -> dict[str, Run]:
    """Every way to submit into an empty store, the one that fills the queue last; then the worker."""
    runs = {}
    for role in (*reversed(system.ways), *(["work"] if system.works else [])):
        print(f"{system.name}: {role} ...", file=sys.stderr)
        if role != "work":
            await bench.server.clear()
        runs[role] = await bench.run(system, role, tasks)
    return runs


def best_python(results: Results) -> str | None:
    """The fastest of the other Python systems, by the median."""
    medians = {
        system.name: found.median
        for system in SYSTEMS
        if system.python and system.name != OURS and (found := results.spread(system.name, "work", per_second))
    }
    return max(medians, key=lambda name: medians[name], default=None)


def goals(results: Results) -> list[Goal]:
    best = best_python(results)

    def times(text: str, other: str | None, role: str, limit: float) -> Goal:
        return Goal(text, results.ratio((OURS, role), (other or "", role), per_second), limit)

    return [
        times(f"tasks/s to the best Python one ({best or 'none measured'})", best, "work", 5),
        times("tasks/s to BullMQ", BULLMQ, "work", 1.2),
        Goal("worker CPU, us per task", results.spread(OURS, "work", worker_us), 40, at_least=False),
        times("bulk submits/s to BullMQ's addBulk", BULLMQ, "bulk", 2),
        times("64 single submits/s to SAQ", SAQ, "concurrent", 2),
    ]


def row(results: Results, system: System) -> list[str]:
    name = system.name
    if name in results.failures:
        return [name, *report.unmeasured(results.failures[name], HEADS)]
    times = None if name == OURS else results.ratio((OURS, "work"), (name, "work"), per_second)
    return [
        name,
        whole(results.spread(name, "work", per_second)),
        str(times or "-"),
        whole(results.spread(name, "work", worker_us)),
        whole(results.spread(name, "work", server_us)),
        whole(results.spread(name, "bulk", per_second)),
        whole(results.spread(name, "concurrent", per_second)),
    ]


async def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--tasks", type=int, default=20_000, help="of each system in a repetition")
    options = parser.parse_args()
    async with bench(options.aof) as at:
        turn = partial(one_turn, at, tasks=options.tasks)
        results = await take_turns(options.only, options.repetitions, options.budget, turn)
    title = f"{options.tasks:,} no-op tasks, one worker process; median (low-high) of {results.repetitions}"
    table = report.Table(title, HEADS, [row(results, system) for system in options.only])
    report.publish(options, results, at.facts, table, goals(results))


if __name__ == "__main__":
    asyncio.run(main())
