"""How late do short timers end? A sleep of 50 ms, a delay, a retry and a snooze, one at a time on a quiet store.

    python -m benchmarks.timers [--ms 50] [--rounds 20] [--rest 0.5]

Each round waits `rest` seconds before it starts, so that the engine's checks of the partition are rare, as they are
when a store has little to do. Store, engine and worker are an embedded server and one process.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable

from benchmarks.figures import percentile
from benchmarks.peers.report import Table, machine
from flowfabric import Context, Engine, Fabric, Retry, Snooze, Worker, open_backend

worker = Worker(concurrency=8)


@worker.task
async def sleep(ctx: Context, seconds: float) -> float:
    began = await ctx.step("begin", time.time)
    await ctx.sleep(seconds)
    return time.time() - began


@worker.task(retry=1)
async def retry(ctx: Context, seconds: float) -> float:
    began: float = await ctx.step("begin", time.time, returns=float)
    if ctx.attempt_index == 0:
        raise Retry("once", after=seconds)
    return time.time() - began


@worker.task
async def snooze(ctx: Context, seconds: float) -> float:
    began: float = await ctx.step("begin", time.time, returns=float)
    if time.time() - began < seconds:
        raise Snooze("a little", for_=seconds)
    return time.time() - began


@worker.task
async def delay(began: float) -> float:
    return time.time() - began


async def late_ms(run: Callable[[], Awaitable[float]], seconds: float, rounds: int, rest: float) -> list[float]:
    late = []
    for _ in range(rounds):
        await asyncio.sleep(rest)
        late.append((await run() - seconds) * 1_000)
    return late


async def main(ms: int, rounds: int, rest: float) -> None:
    seconds = ms / 1_000
    rows = []
    backend = await open_backend(f"embedded://{tempfile.mkdtemp()}")
    fabric = Fabric(backend)
    async with Engine(backend), worker.working(backend):
        timers: dict[str, Callable[[], Awaitable[float]]] = {
            "ctx.sleep": lambda: fabric_run(fabric.submit(sleep, seconds)),
            "retry": lambda: fabric_run(fabric.submit(retry, seconds)),
            "snooze": lambda: fabric_run(fabric.submit(snooze, seconds)),
            "delay": lambda: fabric_run(fabric.submit(delay.with_options(delay=seconds), time.time())),
        }
        for name, run in timers.items():
            late = await late_ms(run, seconds, rounds, rest)
            rows.append([name, f"{percentile(late, 0.50):.1f}", f"{percentile(late, 0.99):.1f}"])
    await backend.close()
    print(" ".join(machine().values()))
    Table(f"timers of {ms} ms", ("timer", "late p50 ms", "late p99 ms"), rows).show()


async def fabric_run(submitting: Awaitable[Awaitable[float]]) -> float:
    return await (await submitting)


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--ms", type=int, default=50)
    given.add_argument("--rounds", type=int, default=20)
    given.add_argument("--rest", type=float, default=0.5)
    parsed = given.parse_args()
    asyncio.run(main(parsed.ms, parsed.rounds, parsed.rest))
