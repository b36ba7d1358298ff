"""taskiq with the Redis stream broker; uvloop, as its own command line takes it when it is installed."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio
import os

import uvloop
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from benchmarks.peers.protocol import Job, Probe, ready, submitted

PACKAGES = ("taskiq", "taskiq-redis", "redis", "hiredis", "uvloop")


async def main(job: Job) -> None:
    broker = RedisStreamBroker(job.url)
    probe = Probe(job.tasks, lambda: os._exit(0))

    async def noop(sent_ns: int) -> None:
        probe(sent_ns)

    task = broker.register_task(noop, task_name="noop")
    if job.role == "work":
        settings = {"max_async_tasks": job.concurrency, "max_prefetch": job.concurrency}
        ready(PACKAGES, {"processes": 1, **settings, "loop": "uvloop"})
        await run_receiver_task(broker, **settings, run_startup=True)
    await broker.startup()
    ready(PACKAGES, {"loop": "uvloop"})
    await submitted(task.kiq, job)
    await broker.shutdown()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(Job.given()))
