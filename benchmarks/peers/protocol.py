"""What a program of a system and the one that measures say to each other. Standard library only.

A program gets its job as one JSON argument, says {"event": "ready"} with its versions and settings, waits for a line
on its standard input, works, and says {"event": "done"} with its figures. Python's and Node's monotonic clocks are the
same one, so the time of a submit can travel inside the task.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

Submit = Callable[[int], Awaitable[object]]


@dataclass(frozen=True)
class Job:
    """What to do: `work`, or one of the ways to submit."""

    role: str
    url: str
    tasks: int
    concurrency: int = 100  # of a worker
    in_flight: int = 64  # of single submits
    rate: float = 50.0  # submits per second when paced

    @classmethod
    def given(cls) -> Job:
        return cls(**json.loads(sys.argv[1]))


def emit(event: str, **facts: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def ready(packages: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Report, and wait for the order to begin."""
    emit("ready", versions={name: version(name) for name in packages}, settings=dict(settings))
    sys.stdin.readline()


def cpu_us() -> float:
    """Processor time of this process with all of its threads."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return (usage.ru_utime + usage.ru_stime) * 1e6


@contextmanager
def timed(tasks: int) -> Iterator[None]:
    """Report what the block took."""
    started, cpu = time.perf_counter(), cpu_us()
    yield
    emit("done", tasks=tasks, seconds=time.perf_counter() - started, cpu_us=cpu_us() - cpu)


class Probe:
    """The no-op every worker runs: it counts, from the first start to the last end."""

    def __init__(self, tasks: int, done: Callable[[], object]) -> None:
        self.tasks, self.done = tasks, done
        self.numbers = itertools.count(1)  # atomic: some workers run threads
        self.latencies: list[float] = []
        self.started = self.cpu = 0.0

    def __call__(self, sent_ns: int) -> None:
        if sent_ns:
            self.latencies.append((time.monotonic_ns() - sent_ns) / 1e3)
        number = next(self.numbers)
        if number == 1:
            self.started, self.cpu = time.perf_counter(), cpu_us()
        if number == self.tasks:
            self.report()

    def report(self) -> None:
        seconds, cpu = time.perf_counter() - self.started, cpu_us() - self.cpu
        emit("done", tasks=self.tasks, seconds=seconds, cpu_us=cpu, latencies_us=self.latencies)
        self.done()


async def concurrently(submit: Submit, job: Job) -> None:
    """Single submits, `in_flight` of them at any time."""
    turns = iter(range(job.tasks))

    async def some() -> None:
        for _ in turns:
            await submit(0)

    await asyncio.gather(*(some() for _ in range(job.in_flight)))


async def paced(submit: Submit, job: Job) -> None:
    """Single submits at a steady rate; each carries the moment it was made."""
    begin = time.monotonic()
    for number in range(job.tasks):
        await asyncio.sleep(max(0.0, begin + number / job.rate - time.monotonic()))
        await submit(time.monotonic_ns())


async def submitted(submit: Submit, job: Job) -> None:
    """The ways to submit that need nothing but a single submit."""
    ways = {"concurrent": concurrently, "paced": paced}
    with timed(job.tasks):
        await ways[job.role](submit, job)
