"""What does one job cost the server? Submit, claim and complete, with 100-byte payload and result.

    python -m benchmarks.lifecycle [--json] [--lives 3000] [--repetitions 3]

Server processor time per lifecycle, lifecycles per second, bytes on the wire and bytes of memory, for the public
functions (pipelined by 100) and the batch surface (batches of 100), with AOF off, everysec and always, as ratios to a
reference function that is measured in the same turn: one HSET of 45 new fields and nine GETs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.server import AOF, Server, batched, claim, finish, public_wire, reference, running, submit

BATCH = 100
PARTITIONS = 16


@dataclass
class Cost:
    """One surface in one AOF mode; medians and the spread of the ratio."""

    surface: str
    aof: str
    cpu_us: float
    ratio: float
    ratio_low: float
    ratio_high: float
    per_second: float
    wire_bytes: float


@dataclass
class Sample:
    cpu_us: float
    per_second: float
    wire_bytes: float


Run = Callable[[Server, str, int], Awaitable[None]]


async def _reference(server: Server, _: str, count: int) -> None:
    await reference(server, count)


SURFACES: dict[str, Run] = {"reference": _reference, "public wire": public_wire, "batch of 100": batched}


async def sample(server: Server, run: Run, lives: int) -> Sample:
    await server.clear()
    cpu, sent, started = await server.cpu_us(), await server.traffic(), time.perf_counter()
    for turn in range(lives // BATCH):
        await run(server, f"{{fp:{turn % PARTITIONS}}}", BATCH)
    seconds = time.perf_counter() - started
    cpu, sent = await server.cpu_us() - cpu, await server.traffic() - sent
    return Sample(cpu / lives, lives / seconds, sent / lives)


async def measure(aof: str, lives: int, repetitions: int) -> list[Cost]:
    """The three in turn, several times over: only ratios inside one turn are compared."""
    turns: list[dict[str, Sample]] = []
    async with running(aof) as server:
        for run in SURFACES.values():
            await sample(server, run, BATCH * 5)
        while len(turns) < repetitions:
            turns.append({name: await sample(server, run, lives) for name, run in SURFACES.items()})
    return [_cost(name, aof, turns) for name in SURFACES]


def _cost(name: str, aof: str, turns: list[dict[str, Sample]]) -> Cost:
    ratios = [turn[name].cpu_us / turn["reference"].cpu_us for turn in turns]
    median = statistics.median
    return Cost(
        surface=name,
        aof=aof,
        cpu_us=median(turn[name].cpu_us for turn in turns),
        ratio=median(ratios),
        ratio_low=min(ratios),
        ratio_high=max(ratios),
        per_second=median(turn[name].per_second for turn in turns),
        wire_bytes=median(turn[name].wire_bytes for turn in turns),
    )


async def memory(lives: int) -> dict[str, float]:
    """Bytes per waiting, running and finished execution; the capped event log is shown by itself."""
    async with running() as server:
        tag, log = "{fp:1}", "ff:part:{fp:1}:events"
        sizes, claims = [await server.memory()], list[list[Any]]()
        for _ in range(lives // BATCH):
            await submit(server, tag, BATCH)
        sizes.append(await server.memory() - await _usage(server, log))
        while len(claims) < lives // BATCH:
            claims.append(await claim(server, tag, BATCH))
        sizes.append(await server.memory() - await _usage(server, log))
        for each in claims:
            await finish(server, tag, each)
        sizes.append(await server.memory() - await _usage(server, log))
        empty, waiting, active, finished = sizes
        return {
            "waiting": (waiting - empty) / lives,
            "running": (active - empty) / lives,
            "finished": (finished - empty) / lives,
            "event log, at most": await _usage(server, log),
        }


async def _usage(server: Server, key: str) -> float:
    size = await server.connection.send("MEMORY", "USAGE", key, "SAMPLES", 0)
    return float(size) if isinstance(size, int) else 0.0


def show(costs: list[Cost], sizes: dict[str, float]) -> None:
    print(
        f"{'aof':<10}{'surface':<14}{'server us':>10}{'x reference':>13}{'spread':>14}{'lives/s':>10}{'wire bytes':>12}"
    )
    for cost in costs:
        spread = f"{cost.ratio_low:.2f}-{cost.ratio_high:.2f}"
        print(
            f"{cost.aof:<10}{cost.surface:<14}{cost.cpu_us:>10.1f}{cost.ratio:>13.2f}{spread:>14}"
            f"{cost.per_second:>10.0f}{cost.wire_bytes:>12.0f}"
        )
    speed = {cost.aof: cost.per_second for cost in costs if cost.surface == "batch of 100"}
    for aof in set(speed) - {"no"}:
        print(f"batch of 100: {aof} runs at {speed[aof] / speed['no']:.2f} x of no AOF")
    print("\nbytes per execution, 100-byte payload and result")
    for name, size in sizes.items():
        print(f"  {name:<20}{size:>10.0f}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--lives", type=int, default=3000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--aof", nargs="+", choices=list(AOF), default=list(AOF), help="which modes to measure")
    options = parser.parse_args()
    costs: list[Cost] = []
    for aof in options.aof:
        print(f"measuring with AOF {aof} ...", file=sys.stderr)
        costs += await measure(aof, options.lives, options.repetitions)
    sizes = await memory(10_000)
    if options.json:
        print(json.dumps({"costs": [asdict(cost) for cost in costs], "bytes": sizes}, indent=2))
    else:
        show(costs, sizes)


if __name__ == "__main__":
    asyncio.run(main())
