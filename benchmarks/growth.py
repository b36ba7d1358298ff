"""Does a job cost more when many wait, or when many are finished?

    python -m benchmarks.growth [--json] [--most 1000000] [--lives 2000]

Server processor time per lifecycle on the batch surface with a growing number of executions waiting in the lane,
then with as many finished ones kept; relative to the smallest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys

from benchmarks.server import Server, batched, claim, finish, running, submit

BATCH, TAG = 100, "{fp:1}"
REPETITIONS = 3


async def fill(server: Server, waiting: int, wanted: int) -> None:
    for _ in range((wanted - waiting) // BATCH):
        await submit(server, TAG, BATCH)


async def cost(server: Server, lives: int) -> float:
    """The median of a few turns; as many enter as leave, so the number waiting stays."""
    turns = []
    for _ in range(REPETITIONS):
        before = await server.cpu_us()
        for _ in range(lives // BATCH):
            await batched(server, TAG, BATCH)
        turns.append((await server.cpu_us() - before) / lives)
    return statistics.median(turns)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--lives", type=int, default=2000)
    options = parser.parse_args()
    rows: list[tuple[str, int, float]] = []
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000) if size <= options.most]
    async with running() as server:
        waiting = 0
        for size in sizes:
            print(f"{size} waiting ...", file=sys.stderr)
            await fill(server, waiting, size)
            waiting = size
            rows.append(("waiting", size, await cost(server, options.lives)))
        print(f"{waiting} finished ...", file=sys.stderr)
        for _ in range(waiting // BATCH):
            await finish(server, TAG, await claim(server, TAG, BATCH))
        rows.append(("finished", waiting, await cost(server, options.lives)))
    smallest = rows[0][2]
    if options.json:
        print(
            json.dumps(
                [{"kind": kind, "count": count, "cpu_us": us, "ratio": us / smallest} for kind, count, us in rows]
            )
        )
        return
    print(f"{'':<10}{'executions':>12}{'server us/life':>16}{'x smallest':>12}")
    for kind, count, us in rows:
        print(f"{kind:<10}{count:>12}{us:>16.1f}{us / smallest:>12.2f}")


if __name__ == "__main__":
    asyncio.run(main())
