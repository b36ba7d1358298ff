"""How many no-op tasks a second does one worker process run, and what does each cost?

    python -m benchmarks.worker [--json] [--tasks 20000] [--repetitions 3] [--concurrency 200] [--loop asyncio]
                                [--profile]

The tasks wait before the worker comes. Measured from the start of the first handler until the store has taken the last
end: tasks per second, processor time of the worker's process (all of its threads) and of the embedded server per task.
`--profile` samples the worker's stack and prints where its time goes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType

from benchmarks.figures import Spread
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.config import Settings
from flowfabric.core import contracts as c
from flowfabric.core.ids import ExecutionId, LaneId, Namespace
from flowfabric.worker import Worker, WorkerStats
from flowfabric.worker.loop import event_loop

LANE = LaneId("default")
MOST_TASKS = 200_000
_PER_SUBMIT = 1_000
_SAMPLE_EVERY_S = 0.001


@dataclass(frozen=True)
class Turn:
    """One repetition."""

    per_second: float
    worker_us: float
    server_us: float
    calls: int


class Stopwatch:
    """Begins with the first handler."""

    def __init__(self) -> None:
        self.seconds = self.cpu = 0.0

    def begin(self) -> None:
        if not self.seconds:
            self.seconds, self.cpu = time.perf_counter(), time.process_time()


async def one_turn(
    url: str, backend: ValkeyBackend, tasks: int, concurrency: int, places: Counter[str] | None = None
) -> Turn:
    watch, worker = Stopwatch(), Worker(concurrency=concurrency)

    @worker.task(lane=LANE)
    async def noop() -> None:
        watch.begin()

    await submit(backend, noop.name, noop.encode_arguments(), tasks)
    server_before = await server_cpu(backend)
    async with worker.working(url):
        with sampled(places):
            await worker.idle()
        seconds, cpu = time.perf_counter() - watch.seconds, time.process_time() - watch.cpu
        server = await server_cpu(backend) - server_before
        check(worker.stats, tasks)
    return Turn(tasks / seconds, cpu / tasks * 1e6, server / tasks * 1e6, worker.stats.calls)


def check(stats: WorkerStats, tasks: int) -> None:
    assert (stats.claimed, stats.completed) == (tasks, tasks), stats


async def submit(backend: ValkeyBackend, kind: str, payload: bytes, count: int) -> None:
    for start in range(0, count, _PER_SUBMIT):
        outcomes = await backend.submit_executions(
            [
                c.CreateExecutionArgs(
                    execution_id=ExecutionId.for_lane(LANE, backend.partitions),
                    namespace=Namespace("bench"),
                    lane_id=LANE,
                    execution_kind=kind,
                    input_payload=payload,
                    payload_encoding="json",
                )
                for _ in range(min(_PER_SUBMIT, count - start))
            ]
        )
        assert all(isinstance(outcome, c.ExecutionCreated) for outcome in outcomes)


async def server_cpu(backend: ValkeyBackend) -> float:
    text = await backend.client.execute("INFO", "cpu")
    assert isinstance(text, bytes)
    facts = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
    return float(facts["used_cpu_user_main_thread"]) + float(facts["used_cpu_sys_main_thread"])


@contextmanager
def sampled(places: Counter[str] | None) -> Iterator[None]:
    """Count which functions are on the stack, a thousand times a second of processor time; None: do not."""
    if places is None:
        yield
        return

    def sample(_: int, frame: FrameType | None) -> None:
        places["all"] += 1
        seen = set()
        while frame is not None:
            seen.add(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_name}")
            frame = frame.f_back
        places.update(seen)

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _SAMPLE_EVERY_S, _SAMPLE_EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


async def measure(tasks: int, concurrency: int, repetitions: int, places: Counter[str] | None) -> list[Turn]:
    turns = []
    with tempfile.TemporaryDirectory(prefix="ff-bench-") as folder:
        url = f"embedded://{folder}"
        backend = await ValkeyBackend.open(Settings(url=url))
        try:
            await one_turn(url, backend, 500, concurrency)  # connections, caches
            for _ in range(repetitions):
                await backend.client.execute("FLUSHALL")
                turns.append(await one_turn(url, backend, tasks, concurrency, places))
        finally:
            await backend.close()
    return turns


def show(turns: list[Turn], places: Counter[str] | None) -> None:
    for name, unit in (("per_second", "tasks/s"), ("worker_us", "worker us/task"), ("server_us", "server us/task")):
        print(f"{unit:<16}{Spread.of(getattr(turn, name) for turn in turns)}")
    print(f"{'calls':<16}{Spread.of(float(turn.calls) for turn in turns)}")
    places = places or Counter()
    for place, count in places.most_common(50):
        print(f"  {count / places['all']:6.1%}  {place}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--concurrency", type=int, default=200)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio", help="uvloop where it is installed")
    parser.add_argument("--profile", action="store_true", help="show where the worker's time goes")
    options = parser.parse_args()
    places: Counter[str] | None = Counter() if options.profile else None
    tasks = min(options.tasks, MOST_TASKS)
    run = event_loop.run if options.loop == "uvloop" else asyncio.run
    turns = run(measure(tasks, options.concurrency, options.repetitions, places))
    if options.json:
        print(json.dumps({"tasks": tasks, "turns": [asdict(turn) for turn in turns]}, indent=2))
    else:
        show(turns, places)


if __name__ == "__main__":
    main()
