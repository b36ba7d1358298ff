"""A worker process whose executions emit numbered frames at a steady pace: `-m tests.stream_load_worker URL N`."""

from __future__ import annotations

import asyncio
import sys
import time

from flowfabric import Context, Worker, task
from flowfabric.worker.loop import event_loop


@task(lane="load", retry=0)
async def count_aloud(ctx: Context, frames: int, per_second: int) -> int:
    """Each frame says its number and when it was emitted. Who falls behind the pace catches up."""
    clock = asyncio.get_running_loop().time
    begun = clock()
    for number in range(frames):
        ahead = begun + number / per_second - clock()
        if ahead > 0:
            await asyncio.sleep(ahead)
        await ctx.emit(f"{number} {time.time_ns()}")
    return frames


if __name__ == "__main__":
    worker = Worker(["load"], concurrency=int(sys.argv[2]))
    worker.add(count_aloud)
    event_loop.run(worker.run(sys.argv[1]))
