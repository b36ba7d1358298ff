"""`bench`: measure this store and this machine with tasks that do nothing."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias
from uuid import uuid4

from typer import Option

from flowfabric.cli.options import AsJson, Url
from flowfabric.cli.parsing import duration, span_text
from flowfabric.cli.running import THROW_AWAY, impatient, place_of, reporting, store_settings
from flowfabric.cli.show.output import LiveTable, Output, Row
from flowfabric.client.fabric import Fabric
from flowfabric.client.tasks.task import Task, task
from flowfabric.config import Settings
from flowfabric.core.states import PublicState
from flowfabric.errors import FlowFabricError
from flowfabric.worker import Worker

_PORTION: Final = 500
_LOOK_S: Final = 0.02
_SAMPLES: Final = 200

Tasks: TypeAlias = Annotated[int, Option(metavar="N", min=1, max=100_000, help="How many tasks.")]
Slots: TypeAlias = Annotated[int, Option(metavar="N", min=1, max=1_000, help="How many run at once.")]
Within: TypeAlias = Annotated[str, Option(metavar="DURATION", help="Give up after this long.")]

_COLUMNS: Final = ("STEP", "TASKS", "TIME", "RATE")


def bench(
    tasks: Tasks = 2_000, concurrency: Slots = 64, within: Within = "60s", url: Url = None, as_json: AsJson = False
) -> None:
    """Measure a store: submit tasks that do nothing, run them, and time single ones.

    They run in a separate lane, which is emptied afterwards. Without a store, a temporary one is used.
    """
    with reporting(as_json) as out:
        seconds = duration("--within", within)
        settings = impatient(store_settings(url, otherwise=THROW_AWAY))
        asyncio.run(_run(settings, tasks, concurrency, seconds, out))


async def _run(settings: Settings, tasks: int, concurrency: int, seconds: float, out: Output) -> None:
    async with Fabric.connect(settings) as fabric:
        with out.live() as table:
            bench = Bench(fabric, tasks, concurrency, time.perf_counter() + seconds, table)
            try:
                await bench.run()
            except TimeoutError:
                raise TimeoutError(
                    f"not done within {span_text(seconds * 1000)}; use fewer --tasks or a longer --within"
                ) from None
            finally:
                await bench.clean_up()
    if out.as_json:
        out.json({"url": place_of(settings), "tasks": tasks, "concurrency": concurrency, **bench.figures})
    else:
        out.table(_COLUMNS, bench.rows())


@dataclass
class Bench:
    """One measurement."""

    fabric: Fabric
    tasks: int
    concurrency: int
    until: float
    table: LiveTable | None = None
    lane: str = field(default_factory=lambda: f"bench-{uuid4().hex[:8]}")
    figures: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._started: dict[int, float] = {}
        self._done = 0
        self._task: Task[[int], None] = task(name="bench", lane=self.lane)(self._nothing)
        self._worker = Worker([self.lane], concurrency=self.concurrency, worker_id="bench", grace=1)
        self._worker.add(self._task)

    async def run(self) -> None:
        await self._measure("submit", self._submit)
        await self._worker.start(self.fabric.backend)
        try:
            await self._measure("run", self._finish)
            await self._single()
        finally:
            await self._worker.stop()

    async def clean_up(self) -> None:
        """Leave the store as it was: cancel waiting executions and delete ended ones."""
        cursor = None
        while True:
            page = await self.fabric.list(lane=self.lane, state=PublicState.WAITING, cursor=cursor, limit=_PORTION)
            handles = [self.fabric.handle(each.execution_id) for each in page.executions]
            await asyncio.gather(*(handle.cancel("the benchmark has ended") for handle in handles))
            cursor = page.next_cursor
            if cursor is None:
                break
        while True:
            trimmed = await self.fabric.trim(keep_last=0, lane=self.lane, cursor=cursor)
            cursor = trimmed.cursor
            if cursor is None:
                break

    def _left(self) -> float:
        """The time left. Checked between calls, because a call that is cancelled may still submit."""
        left = self.until - time.perf_counter()
        if left <= 0:
            raise TimeoutError
        return left

    async def _nothing(self, number: int) -> None:
        self._started[number] = time.perf_counter()

    async def _measure(self, step: str, work: Callable[[], Any]) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        self._done = 0
        watching = asyncio.create_task(self._watch(step, began))
        try:
            await work()
        finally:
            watching.cancel()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        self._note(step, took, cpu)

    def _note(self, step: str, took: float, cpu: float) -> None:
        self.figures[step] = {
            "seconds": round(took, 3),
            "per_second": round(self.tasks / took),
            "cpu_us_per_task": round(cpu / self.tasks * 1e6, 1),
        }

    async def _submit(self) -> None:
        for first in range(0, self.tasks, _PORTION):
            self._left()
            numbers = range(first, min(first + _PORTION, self.tasks))
            for outcome in await self.fabric.submit_many(self._task.call(number) for number in numbers):
                if isinstance(outcome, FlowFabricError):
                    raise outcome
            self._done += len(numbers)

    async def _finish(self) -> None:
        while self._worker.stats.completed < self.tasks:
            self._done = self._worker.stats.completed
            self._left()
            await asyncio.sleep(_LOOK_S)

    async def _single(self) -> None:
        """Time single executions from submit to the handler's start, and to the result."""
        start_ms, result_ms = [], []
        for number in range(self.tasks, self.tasks + min(_SAMPLES, self.tasks)):
            began = time.perf_counter()
            handle = await self.fabric.submit(self._task, number)
            await handle.result(self._left())
            result_ms.append((time.perf_counter() - began) * 1000)
            start_ms.append((self._started[number] - began) * 1000)
        self.figures["single"] = {
            "samples": len(start_ms),
            "start_ms": _spread(start_ms),
            "result_ms": _spread(result_ms),
        }

    async def _watch(self, step: str, began: float) -> None:
        """Draw the progress, if there is a terminal."""
        while self.table is not None:
            took = time.perf_counter() - began
            now = (step, f"{self._done} of {self.tasks}", span_text(took * 1000), f"{self._done / took:.0f}/s")
            self.table.update(_COLUMNS, [*self.rows(), now])
            await asyncio.sleep(0.1)

    def rows(self) -> list[Row]:
        rows: list[Row] = [
            (step, str(self.tasks), span_text(of["seconds"] * 1000), f"{of['per_second']}/s")
            for step in ("submit", "run")
            if (of := self.figures.get(step))
        ]
        if single := self.figures.get("single"):
            for name in ("start", "result"):
                of = single[f"{name}_ms"]
                spread = f"p50 {of['p50']:.2f}ms, p99 {of['p99']:.2f}ms"
                rows.append((f"submit to {name}", str(single["samples"]), spread, ""))
        return rows


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100) if len(values) > 1 else values * 99
    return {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)}
