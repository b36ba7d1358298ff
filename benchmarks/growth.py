"""Does a job cost more when many wait, or when many are finished?

    python -m benchmarks.growth [--json] [--most 1000000] [--lives 4000] [--repetitions 3]

Server processor time per lifecycle on the batch surface with a growing number of executions waiting in the lane,
then with as many finished ones kept. Each is the ratio to a second server that stays at a thousand waiting and takes
turns of 100 lives with the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.figures import NOTHING, Sample, Spread, dearer, in_turn
from benchmarks.server import Server, batched, claim, finish, measured, running, submit

BATCH, TAG = 100, "{fp:1}"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
STEP, CALLS = SIZES[0], 4  # to fill and to empty: so many at a time, in so many calls at once


@dataclass
class Cost:
    """Medians of the repetitions, and their ratio with its spread."""

    kind: str
    count: int
    cpu_us: float
    yardstick_us: float
    ratio: Spread


async def fill(server: Server, executions: int) -> None:
    for _ in range(executions // STEP):
        await asyncio.gather(*(submit(server, TAG, STEP // CALLS) for _ in range(CALLS)))


async def drain(server: Server, executions: int) -> None:
    async def some() -> None:
        await finish(server, TAG, await claim(server, TAG, STEP // CALLS))

    for _ in range(executions // STEP):
        await asyncio.gather(*(some() for _ in range(CALLS)))


async def compare(kind: str, count: int, servers: list[Server], lives: int, repetitions: int) -> Cost:
    """The grown server and the yardstick; as many enter as leave, so the number waiting stays."""
    print(f"{count} {kind}: measuring ...", file=sys.stderr)
    grown, yardstick = zip(*[await repetition(servers, lives) for _ in range(repetitions)], strict=True)
    return Cost(
        kind=kind,
        count=count,
        cpu_us=median(sample.cpu_per_life for sample in grown),
        yardstick_us=median(sample.cpu_per_life for sample in yardstick),
        ratio=dearer(grown, yardstick),
    )


async def repetition(servers: list[Server], lives: int) -> list[Sample]:
    sums = [NOTHING for _ in servers]
    for turn in range(lives // BATCH):
        for which in in_turn(range(len(servers)), turn):
            sums[which] += await measured(servers[which], batched, TAG, BATCH)
    return sums


async def measure(sizes: list[int], lives: int, repetitions: int) -> list[Cost]:
    costs, waiting = list[Cost](), 0
    async with running() as grown, running() as yardstick:
        servers = [grown, yardstick]
        await fill(yardstick, SIZES[0])
        for size in sizes:
            print(f"{size} waiting: filling ...", file=sys.stderr)
            await fill(grown, size - waiting)
            waiting = size
            costs.append(await compare("waiting", size, servers, lives, repetitions))
        print(f"{waiting} finished: finishing ...", file=sys.stderr)
        await drain(grown, waiting - SIZES[0])
        costs.append(await compare("finished", waiting, servers, lives, repetitions))
    return costs


def show(costs: list[Cost]) -> None:
    print(f"{'':<10}{'executions':>12}{'server us/life':>16}{'at 1,000 waiting':>18}{'ratio':>20}")
    for each in costs:
        figures = f"{each.cpu_us:>16.1f}{each.yardstick_us:>18.1f}{each.ratio!s:>20}"
        print(f"{each.kind:<10}{each.count:>12,}{figures}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--lives", type=int, default=4000, help="on each server in a repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= max(options.most, SIZES[0])]
    costs = await measure(sizes, options.lives, options.repetitions)
    if options.json:
        print(json.dumps([asdict(each) for each in costs], indent=2))
    else:
        show(costs)


if __name__ == "__main__":
    asyncio.run(main())
