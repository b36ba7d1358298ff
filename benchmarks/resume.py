"""How long does a wait take whose answer is there at once? Suspend, signal and resume, beside a raw round trip.

    python -m benchmarks.resume [--json] [--executions 500] [--repetitions 3]

Counted are the call that suspends an execution, until its answer, and the way back, from the call that signals until
whoever waits for work has got the execution again. Nobody polls: the claim that gets it waits in the store. In turns
with it the way from handler to handler, from the line that waits, over `handle.signal`, to the line behind it in the
next pass of a worker's handler; and, on the same connection, an FCALL that does nothing.

They are made one after the other, and the goal is that of the calls. Then again with a rest of some milliseconds before
each stretch, as nobody answers at once: everything is cold then. Store, worker and sender are an embedded server and
one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from benchmarks.figures import Spread, percentile, ratio
from benchmarks.peers.report import Goal, Table, machine
from flowfabric import Context, Engine, Fabric, Worker
from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.conditions import ByName, Single
from flowfabric.core.contracts import batch as b
from flowfabric.core.ids import (
    AttemptIndex,
    ExecutionId,
    LaneId,
    Namespace,
    SignalId,
    SuspensionId,
    WorkerId,
    WorkerInstanceId,
)
from flowfabric.core.partition import lane_partitions

LIMIT = 8
WARM_UP = 50
REST_S = 0.005
SIGNAL = "answer"
SHARES = (0.50, 0.99)
CALLS, RAW = "suspend, signal, resume", "an FCALL that does nothing"


class Ports:
    """An execution waits, and goes on, by the calls of the store alone: what a worker and a sender make of them."""

    LANE, WORKER, INSTANCE = LaneId("ports"), WorkerId("ports"), WorkerInstanceId("ports-1")

    def __init__(self, backend: ValkeyBackend) -> None:
        self._backend = backend
        self._home = lane_partitions(self.LANE, backend.partitions)[0]
        self._parked: b.ParkedClaim | None = None
        self._came: asyncio.Future[b.ClaimedWork] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Ports]:
        async with self._backend.listen_for_work(
            (self.LANE,), worker_instance_id=self.INSTANCE, on_handed=self._handed
        ) as listener:
            await listener.wait()
            yield self

    def _handed(self, _key: str, message: bytes) -> None:
        assert self._parked is not None
        assert self._came is not None
        self._came.set_result(self._parked.read(message)[0])

    async def _ask(self) -> asyncio.Future[b.ClaimedWork]:
        """A claim that waits, and what will come for it."""
        claim = b.ClaimExecutionsArgs(
            lane_id=self.LANE,
            worker_id=self.WORKER,
            worker_instance_id=self.INSTANCE,
            lease_ttl_ms=30_000,
            park=1,
        )
        self._came = asyncio.get_running_loop().create_future()
        args = b.FinishExecutionsArgs(partition=self._home, claim=claim)
        self._parked = (await self._backend.finish_executions(args)).parked
        return self._came

    async def _begun(self) -> b.ClaimedWork:
        came = await self._ask()
        new = c.CreateExecutionArgs(
            execution_id=ExecutionId.for_lane(self.LANE, self._backend.partitions),
            namespace=Namespace("bench"),
            lane_id=self.LANE,
            execution_kind="ask",
        )
        await self._backend.submit_executions([new])
        return await came

    async def one_wait_us(self, rest_s: float = 0) -> float:
        """What both stretches took."""
        work, waitpoint = await self._begun(), c.FreshWaitpoint.new()
        suspend = c.SuspendExecutionArgs(
            execution_id=work.execution_id,
            fence=work.fence,
            attempt_index=AttemptIndex(work.attempt_index),
            suspension_id=SuspensionId.new(),
            waitpoints=(waitpoint,),
            resume_condition=Single(waitpoint.waitpoint_key, ByName(SIGNAL)),
            issue_tokens=False,  # as workers do
        )
        signal = c.SignalExecutionArgs(execution_id=work.execution_id, signal_id=SignalId.new(), signal_name=SIGNAL)
        await _rest(rest_s)
        took_us = await timed_us(lambda: self._backend.suspend_execution(suspend))
        came = await self._ask()
        await _rest(rest_s)

        async def back() -> b.ClaimedWork:
            await self._backend.signal_execution(signal)
            return await came

        took_us += await timed_us(back)
        await self._backend.finish_executions(
            b.FinishExecutionsArgs(
                partition=self._home,
                finish=(c.CompleteExecutionArgs(execution_id=work.execution_id, fence=came.result().fence),),
            )
        )
        return took_us


@dataclass
class Waits:
    """What was measured, and the wait of a handler that is being measured."""

    began: float | None = None
    suspending_us: float = 0.0
    calls_us: list[float] = field(default_factory=list)
    handlers_us: list[float] = field(default_factory=list)
    round_trips_us: list[float] = field(default_factory=list)
    suspended: asyncio.Event = field(default_factory=asyncio.Event)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        self.began = None
        self.suspended.clear()
        self.resumed.clear()

    @property
    def figures(self) -> dict[str, list[float]]:
        return {CALLS: self.calls_us, "from handler to handler": self.handlers_us, RAW: self.round_trips_us}

    def forget(self) -> None:
        for took in self.figures.values():
            took.clear()


class Watched:
    """A store that tells when an execution has been suspended, in the moment its worker learns it."""

    def __init__(self, backend: EngineBackend, waits: Waits) -> None:
        self._backend = backend
        self._waits = waits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        outcome = await self._backend.suspend_execution(args)
        assert self._waits.began is not None
        self._waits.suspending_us = _us_since(self._waits.began)
        self._waits.suspended.set()
        return outcome


def asking(waits: Waits) -> Worker:
    worker = Worker()

    @worker.task(name="ask")
    async def ask(ctx: Context) -> None:
        if waits.began is None:
            waits.began = time.perf_counter()
        await ctx.wait_for_signal(SIGNAL)
        waits.handlers_us.append(waits.suspending_us + _us_since(waits.began))
        waits.resumed.set()

    return worker


def _us_since(moment: float) -> float:
    return (time.perf_counter() - moment) * 1e6


async def _rest(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)


async def timed_us(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return _us_since(began)


async def one_wait(fabric: Fabric, worker: Worker, waits: Waits, rest_s: float) -> None:
    waits.begin()
    handle = await fabric.submit("ask")
    async with asyncio.timeout(10):
        await waits.suspended.wait()
        await worker.idle()  # its claim waits
        await _rest(rest_s)
        waits.began = time.perf_counter()
        await handle.signal(SIGNAL)
        await waits.resumed.wait()
        await handle.wait()


async def some_waits(executions: int, rest_s: float) -> Waits:
    waits = Waits()
    worker = asking(waits)
    async with Fabric.connect("embedded://") as fabric:
        backend = fabric.backend
        assert isinstance(backend, ValkeyBackend)

        async def nothing() -> None:
            await backend.client.execute("FCALL", "ff_version", 0)

        watched = cast("EngineBackend", Watched(backend, waits))
        async with Engine(backend), worker.working(watched), Ports(backend).listening() as ports:
            for number in range(WARM_UP + executions):
                if number == WARM_UP:
                    waits.forget()
                waits.calls_us.append(await ports.one_wait_us(rest_s))
                await one_wait(fabric, worker, waits, rest_s)
                await _rest(rest_s)
                waits.round_trips_us.append(await timed_us(nothing))
    assert len(waits.handlers_us) == executions, "each was resumed once"
    return waits


def rows_of(many: list[Waits], after: str) -> list[list[str]]:
    rows = []
    for what in Waits().figures:
        took = [waits.figures[what] for waits in many]
        spreads = [str(Spread.of(percentile(each, share) for each in took)) for share in SHARES]
        rows.append([f"{what}{after}", *spreads, str(times(many, what))])
    return rows


def times(many: list[Waits], what: str) -> Spread:
    """How many round trips it takes."""
    took, raw = ([percentile(waits.figures[each], 0.50) for waits in many] for each in (what, RAW))
    return ratio(took, raw)


def report(options: argparse.Namespace, at_once: list[Waits], rested: list[Waits]) -> None:
    goal = Goal("p50 to that of one FCALL", times(at_once, CALLS), LIMIT, at_least=False)
    if options.json:
        figures = {
            name: [{what: [percentile(took, share) for share in SHARES] for what, took in waits.figures.items()}
                   for waits in many]
            for name, many in (("at_once", at_once), ("after_a_rest", rested))
        }  # fmt: skip
        told = asdict(goal) | {"met": goal.met}
        print(json.dumps({"machine": machine(), "us": figures, "goals": [told]}, indent=2))
        return
    title = f"{options.executions} waits, one after the other; us, median (low-high) of {len(at_once)}"
    rows = rows_of(at_once, "") + rows_of(rested, f", after {REST_S * 1000:g} ms of rest")
    Table(title, ("", "p50", "p99", "p50 to one FCALL"), rows).show()
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [goal.row()]).show()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--executions", type=int, default=500, help="that wait, in each repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    at_once, rested = [], []
    for _ in range(options.repetitions):
        at_once.append(await some_waits(options.executions, 0))
        rested.append(await some_waits(options.executions, REST_S))
    report(options, at_once, rested)


if __name__ == "__main__":
    asyncio.run(main())
