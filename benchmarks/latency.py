"""How long after its submit does a task start, on an idle machine? Ours beside taskiq and BullMQ.

    python -m benchmarks.peers.install            once: the others, outside of the tree
    python -m benchmarks.latency [--json] [--rate 50] [--seconds 10] [--repetitions 3] [--only flowfabric,taskiq]

One process submits single tasks at a steady rate, another one works; the time runs from just before the submit to
the first line of the handler. Everybody uses one server over TCP and takes turns. The first second is not counted.
In the same turns, at the same rate, a bare PING goes to the server and back: how far its slowest are from its usual
ones is how quiet the machine is, and no system can be quieter than that.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from functools import partial

from benchmarks.figures import Run, Spread, percentile
from benchmarks.peers import report
from benchmarks.peers.driver import Bench, bench
from benchmarks.peers.report import Goal
from benchmarks.peers.results import Results, server_us, take_turns, worker_us
from benchmarks.peers.systems import OURS, SYSTEMS, TASKIQ, System

HEADS = ("system", "p50 ms", "p99 ms", "p99 to p50", "ours p50 x", "worker us/task", "server us/task")
PACED, WARM_UP_S = "paced", 1.0
PING = "a bare PING"


async def one_turn(bench: Bench, system: System, rate: float, seconds: float, pings: list[Run]) -> dict[str, Run]:
    print(f"{system.name}: {seconds:g} s ...", file=sys.stderr)
    await bench.server.clear()
    cold = round(rate * WARM_UP_S)
    run = await bench.run_paced(system, cold + round(rate * seconds), rate)
    if system.name == OURS:
        pings.append(await pinged(bench, rate, seconds))
    return {PACED: replace(run, latencies_us=run.latencies_us[cold:])}


async def pinged(bench: Bench, rate: float, seconds: float) -> Run:
    latencies = []
    for _ in range(round(rate * seconds)):
        await asyncio.sleep(1 / rate)
        began = time.perf_counter()
        await bench.server.connection.send("PING")
        latencies.append((time.perf_counter() - began) * 1e6)
    return Run(len(latencies), seconds, 0.0, 0.0, tuple(latencies))


def p50(run: Run) -> float:
    return percentile(run.latencies_us, 0.50) / 1e3


def p99(run: Run) -> float:
    return percentile(run.latencies_us, 0.99) / 1e3


def tail(run: Run) -> float:
    return p99(run) / p50(run)


def goals(results: Results) -> list[Goal]:
    return [
        Goal("p50 to taskiq's", results.ratio((OURS, PACED), (TASKIQ, PACED), p50), 1, at_least=False),
        Goal("p99 to own p50", results.spread(OURS, PACED, tail), 2, at_least=False),
    ]


def row(results: Results, system: System) -> list[str]:
    name = system.name
    if name in results.failures:
        return [name, *report.unmeasured(results.failures[name], HEADS)]
    spreads: list[Spread | None] = [results.spread(name, PACED, value) for value in (p50, p99, tail)]
    spreads.append(None if name == OURS else results.ratio((OURS, PACED), (name, PACED), p50))
    cpu = [results.spread(name, PACED, value) for value in (worker_us, server_us)]
    return [name, *(str(spread or "-") for spread in spreads), *map(report.whole, cpu)]


def ping_row(pings: list[Run]) -> list[str]:
    spreads = [str(Spread.of(map(value, pings))) for value in (p50, p99, tail)] if pings else ["-"] * 3
    return [PING, *spreads, *["-"] * (len(HEADS) - 4)]


async def main() -> None:
    parser = report.options(__doc__, [system for system in SYSTEMS if system.reacts])
    parser.add_argument("--rate", type=float, default=50.0, help="submits per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each system in a repetition")
    options = parser.parse_args()
    pings: list[Run] = []
    async with bench(options.aof) as at:
        turn = partial(one_turn, at, rate=options.rate, seconds=options.seconds, pings=pings)
        results = await take_turns(options.only, options.repetitions, options.budget, turn)
    runs = f"median (low-high) of {results.repetitions} x {options.seconds:g} s"
    title = f"submit to start at {options.rate:g} tasks/s; {runs}"
    rows = [*(row(results, system) for system in options.only), ping_row(pings)]
    table = report.Table(title, HEADS, rows)
    report.publish(options, results, at.facts, table, goals(results))


if __name__ == "__main__":
    asyncio.run(main())
