"""Dramatiq with the Redis broker: one process, eight threads, a long prefetch; it has no bulk, so one by one."""
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import os
import threading

import dramatiq
import dramatiq.worker
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers.protocol import Job, Probe, ready, timed

PACKAGES = ("dramatiq", "redis", "hiredis")
THREADS, PREFETCH = 8, 1000


def main(job: Job) -> None:
    broker = RedisBroker(url=job.url)
    dramatiq.set_broker(broker)
    probe = Probe(job.tasks, lambda: os._exit(0))
    task = dramatiq.actor(probe.__call__, actor_name="noop", broker=broker)
    if job.role == "work":
        dramatiq.worker.QUEUE_PREFETCH = PREFETCH  # what its environment variable sets
        worker = dramatiq.Worker(broker, worker_threads=THREADS)
        ready(PACKAGES, {"processes": 1, "threads": THREADS, "prefetch": PREFETCH})
        worker.start()
        threading.Event().wait()
    broker.client.ping()
    ready(PACKAGES, {})
    with timed(job.tasks):
        for _ in range(job.tasks):
            task.send(0)


if __name__ == "__main__":
    main(Job.given())
