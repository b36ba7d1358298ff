"""FlowFabric, as a user would write it."""

from __future__ import annotations

import asyncio

from benchmarks.peers.protocol import Job, Probe, ready, submitted, timed
from flowfabric import Fabric, FlowFabricError, Worker, named
from flowfabric.worker.loop import event_loop

PACKAGES = ("flowfabric", "hiredis", "msgspec")


def loop_name() -> str:
    """asyncio or uvloop."""
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


async def submit(job: Job) -> None:
    task = named("noop")
    async with Fabric.connect(job.url) as fabric:
        ready(PACKAGES, {"loop": loop_name()})
        if job.role != "bulk":
            await submitted(lambda sent_ns: fabric.submit(task, sent_ns), job)
            return
        with timed(job.tasks):
            outcomes = await fabric.submit_many(task, [(0,)] * job.tasks)
        refused = [outcome for outcome in outcomes if isinstance(outcome, FlowFabricError)]
        assert not refused, refused[0]


async def work(job: Job) -> None:
    """Until the last task has ended; then everything must have been accepted by the store."""
    ended = asyncio.Event()
    probe = Probe(job.tasks, ended.set)
    worker = Worker(concurrency=job.concurrency, prefetch=job.concurrency)

    @worker.task(name="noop")
    async def noop(sent_ns: int) -> None:
        probe(sent_ns)

    settings = {"processes": 1, "concurrency": job.concurrency, "prefetch": job.concurrency, "loop": loop_name()}
    ready(PACKAGES, settings)
    async with worker.working(job.url):
        await ended.wait()
    assert worker.stats.completed == job.tasks, worker.stats


if __name__ == "__main__":
    given = Job.given()
    event_loop.run(work(given) if given.role == "work" else submit(given))
