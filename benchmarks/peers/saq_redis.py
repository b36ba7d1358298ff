"""SAQ on Redis: single submits, many in flight; uvloop, and as many operations at once as are in flight."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import asyncio

import uvloop
from redis import asyncio as redis
from saq.queue.redis import RedisQueue

from benchmarks.peers.protocol import Job, ready, submitted

PACKAGES = ("saq", "redis", "hiredis", "uvloop")


async def main(job: Job) -> None:
    queue = RedisQueue(redis.from_url(job.url), max_concurrent_ops=job.in_flight)
    await queue.connect()
    ready(PACKAGES, {"max_concurrent_ops": job.in_flight, "loop": "uvloop"})
    await submitted(lambda sent_ns: queue.enqueue("noop", sent_ns=sent_ns), job)
    await queue.disconnect()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(Job.given()))
