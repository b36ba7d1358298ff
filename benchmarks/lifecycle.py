"""What does one job cost the server? Submit, claim and complete, with 100-byte payload and result.

    python -m benchmarks.lifecycle [--json] [--lives 3000] [--repetitions 3] [--aof no everysec always]

Server processor time per lifecycle, lifecycles per second, bytes on the wire and bytes of memory, for the public
functions (pipelined by 100) and the batch surface (batches of 100), with AOF off, everysec and always, as ratios to a
reference function: one HSET of 45 new fields and nine GETs. Reference, surfaces and the servers of the three AOF modes
take turns of 100 lives; a ratio is that of the sums over one repetition.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.figures import NOTHING, Sample, Spread, dearer, faster, in_turn
from benchmarks.server import (
    AOF,
    Run,
    Server,
    batched,
    claim,
    finish,
    measured,
    public_wire,
    reference,
    running,
    submit,
)

BATCH = 100
PARTITIONS = 16
REMEMBERED = 10_000  # executions to weigh
REFERENCE, WIRE, BATCHES = "reference", "public wire", "batch of 100"
SURFACES: dict[str, Run] = {REFERENCE: reference, WIRE: public_wire, BATCHES: batched}
GOALS = {f"{BATCHES}, finished": 1_300, f"{WIRE}, finished": 2_000}

Sums = dict[tuple[str, str], Sample]  # by AOF mode and surface


@dataclass
class Cost:
    """One surface in one AOF mode; medians of the repetitions, and ratios with their spread."""

    surface: str
    aof: str
    cpu_us: float
    to_reference: Spread
    per_second: float
    to_no_aof: Spread | None
    wire_bytes: float


async def measure(modes: list[str], lives: int, repetitions: int) -> list[Cost]:
    async with AsyncExitStack() as stack:
        servers = {aof: await stack.enter_async_context(running(aof)) for aof in modes}
        await repetition(servers, BATCH * 3)  # connections, caches
        sums: list[Sums] = []
        while len(sums) < repetitions:
            print(f"repetition {len(sums) + 1} of {repetitions} ...", file=sys.stderr)
            sums.append(await repetition(servers, lives))
    return [cost(aof, surface, sums) for aof in modes for surface in SURFACES]


async def repetition(servers: dict[str, Server], lives: int) -> Sums:
    for server in servers.values():
        await server.clear()
    sums = dict.fromkeys(((aof, surface) for aof in servers for surface in SURFACES), NOTHING)
    for turn in range(lives // BATCH):
        tag = f"{{fp:{turn % PARTITIONS}}}"
        for aof in in_turn(list(servers), turn):
            for surface in in_turn(list(SURFACES), turn):
                sums[aof, surface] += await measured(servers[aof], SURFACES[surface], tag, BATCH)
    return sums


def cost(aof: str, surface: str, sums: list[Sums]) -> Cost:
    mine = [each[aof, surface] for each in sums]
    without = [each["no", surface] for each in sums if ("no", surface) in each]
    return Cost(
        surface=surface,
        aof=aof,
        cpu_us=median(sample.cpu_per_life for sample in mine),
        to_reference=dearer(mine, (each[aof, REFERENCE] for each in sums)),
        per_second=median(sample.lives_per_second for sample in mine),
        to_no_aof=faster(mine, without) if without else None,
        wire_bytes=median(sample.bytes_per_life for sample in mine),
    )


async def memory(lives: int) -> dict[str, float]:
    """Bytes per waiting, running and finished execution; the capped event log is shown by itself."""
    print("memory ...", file=sys.stderr)
    async with running() as server:
        for run in (public_wire, batched):
            await run(server, "{fp:1}", BATCH)  # buffers
        return await _wire_memory(server, lives) | await _batch_memory(server, lives)


async def _batch_memory(server: Server, lives: int) -> dict[str, float]:
    await server.clear()
    tag, turns, empty, claims = "{fp:1}", lives // BATCH, await server.memory(), list[list[Any]]()
    for _ in range(turns):
        await submit(server, tag, BATCH)
    waiting = await _held(server, tag) - empty
    while len(claims) < turns:
        claims.append(await claim(server, tag, BATCH))
    active = await _held(server, tag) - empty
    for each in claims:
        await finish(server, tag, each)
    finished = await _held(server, tag) - empty
    sizes = {"waiting": waiting, "running": active, "finished": finished}
    log = {"event log, at most": await _log_size(server, tag)}
    return {f"{BATCHES}, {name}": size / lives for name, size in sizes.items()} | log


async def _wire_memory(server: Server, lives: int) -> dict[str, float]:
    await server.clear()
    empty, tag = await server.memory(), "{fp:1}"
    for _ in range(lives // BATCH):
        await public_wire(server, tag, BATCH)
    return {f"{WIRE}, finished": (await _held(server, tag) - empty) / lives}


async def _held(server: Server, tag: str) -> float:
    return await server.memory() - await _log_size(server, tag)


async def _log_size(server: Server, tag: str) -> float:
    size = await server.connection.send("MEMORY", "USAGE", f"ff:part:{tag}:events", "SAMPLES", 0)
    return float(size) if isinstance(size, int) else 0.0


def show(costs: list[Cost], sizes: dict[str, float]) -> None:
    heads = f"{'server us':>10}{'x reference':>20}{'lives/s':>10}{'x no AOF':>20}{'wire bytes':>12}"
    print(f"{'aof':<10}{'surface':<14}{heads}")
    for each in costs:
        print(
            f"{each.aof:<10}{each.surface:<14}{each.cpu_us:>10.1f}{each.to_reference!s:>20}{each.per_second:>10.0f}"
            f"{each.to_no_aof or '-'!s:>20}{each.wire_bytes:>12.0f}"
        )
    print("\nbytes per execution, 100-byte payload and result")
    for name, size in sizes.items():
        goal = f"   goal {GOALS[name]:,}" if name in GOALS else ""
        print(f"  {name:<24}{size:>10,.0f}{goal}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--lives", type=int, default=3000, help="of each surface in a repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--aof", nargs="+", choices=list(AOF), default=list(AOF), help="which modes to measure")
    options = parser.parse_args()
    costs = await measure(options.aof, options.lives, options.repetitions)
    sizes = await memory(REMEMBERED)
    if options.json:
        print(json.dumps({"costs": [asdict(each) for each in costs], "bytes": sizes}, indent=2))
    else:
        show(costs, sizes)


if __name__ == "__main__":
    asyncio.run(main())
