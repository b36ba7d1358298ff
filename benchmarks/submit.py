"""How fast does one process submit? In bulk, and with 64 single `submit()` calls in flight, beside SAQ's enqueue.

    python -m benchmarks.submit [--json] [--tasks 5000] [--repetitions 3]

Everybody uses the same embedded server, in turns, and the queues are emptied between them. SAQ takes part where
`saq[redis]` is installed. A ratio is one of the same repetition.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks.figures import Spread, in_turn
from flowfabric.backends.valkey.embedded.server import EmbeddedServer
from flowfabric.client.fabric import Fabric
from flowfabric.client.tasks.task import task

try:
    from redis import asyncio as redis  # type: ignore[import-not-found, unused-ignore]
    from saq.queue.redis import RedisQueue  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    RedisQueue = None

IN_FLIGHT = 64
BULK, SINGLE, SAQ = "submit_many", f"submit, {IN_FLIGHT} in flight", f"SAQ enqueue, {IN_FLIGHT} in flight"

Submit = Callable[[int], Awaitable[None]]  # so many tasks


@dataclass
class Speed:
    """One way to submit; medians of the repetitions."""

    way: str
    per_second: float
    cpu_us: float  # of this process, for one task
    to_saq: Spread | None


@task
async def noop(number: int) -> None:
    """Nothing; nobody runs it."""


async def bulk(fabric: Fabric, count: int) -> None:
    outcomes = await fabric.submit_many(noop.call(number) for number in range(count))
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)


async def in_flight(submit_one: Callable[[int], Awaitable[Any]], count: int) -> None:
    numbers = iter(range(count))

    async def submit() -> None:
        for number in numbers:
            await submit_one(number)

    await asyncio.gather(*(submit() for _ in range(IN_FLIGHT)))


@asynccontextmanager
async def ways(stack: AsyncExitStack, socket: str) -> AsyncIterator[dict[str, Submit]]:
    fabric = await stack.enter_async_context(Fabric.connect(f"valkey+unix://{socket}"))
    found: dict[str, Submit] = {
        BULK: lambda count: bulk(fabric, count),
        SINGLE: lambda count: in_flight(lambda number: fabric.submit(noop, number), count),
    }
    if RedisQueue is not None:
        queue = RedisQueue(redis.from_url(f"unix://{socket}"), max_concurrent_ops=IN_FLIGHT)
        await queue.connect()
        stack.push_async_callback(queue.disconnect)
        found[SAQ] = lambda count: in_flight(lambda number: queue.enqueue("noop", number=number), count)
    yield found


async def measure(tasks: int, repetitions: int) -> list[Speed]:
    server = await EmbeddedServer.join(None)
    rates: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.leave)
        cleaner = await stack.enter_async_context(Fabric.connect(f"valkey+unix://{server.socket_path}"))
        async with ways(stack, str(server.socket_path)) as found:
            for turn in range(repetitions + 1):
                for way in in_turn(list(found), turn):
                    await cleaner.backend.client.execute("FLUSHALL", "SYNC")  # type: ignore[attr-defined]
                    cpu, started = time.process_time(), time.perf_counter()
                    await found[way](tasks)
                    if turn:  # the first is for connections and caches
                        rates.setdefault(way, []).append(tasks / (time.perf_counter() - started))
                        costs.setdefault(way, []).append((time.process_time() - cpu) / tasks * 1e6)
    return [Speed(way, median(rates[way]), median(costs[way]), to_saq(rates, way)) for way in rates]


def to_saq(rates: dict[str, list[float]], way: str) -> Spread | None:
    if SAQ not in rates:
        return None
    return Spread.of(ours / theirs for ours, theirs in zip(rates[way], rates[SAQ], strict=True))


def show(speeds: list[Speed]) -> None:
    print(f"{'way':<30}{'tasks/s':>10}{'client us':>12}{'x SAQ':>20}")
    for each in speeds:
        print(f"{each.way:<30}{each.per_second:>10,.0f}{each.cpu_us:>12.1f}{each.to_saq or '-'!s:>20}")
    if RedisQueue is None:
        print("SAQ is not installed: pip install 'saq[redis]'")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tasks", type=int, default=5_000, help="of each way in a repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    speeds = await measure(options.tasks, options.repetitions)
    if options.json:
        print(json.dumps([asdict(each) for each in speeds], indent=2))
    else:
        show(speeds)


if __name__ == "__main__":
    asyncio.run(main())
