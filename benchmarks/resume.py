"""How long does a wait take whose answer is there at once? Suspend, signal and resume, beside a raw round trip.

    python -m benchmarks.resume [--json] [--executions 500] [--repetitions 3]

A handler waits for a signal. The moment the store has suspended it, the signal is sent; the time runs from the call
of the handler to the line behind it, in its next pass. Nobody polls: the worker's claim waits in the store. In turns
with it, on the same connection, an FCALL that does nothing. Store, worker and sender are an embedded server and one
process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from benchmarks.figures import Spread, percentile, ratio
from benchmarks.peers.report import Goal, Table, machine
from flowfabric import Context, Engine, Fabric, Worker
from flowfabric.backends.ports import EngineBackend
from flowfabric.backends.valkey.backend import ValkeyBackend
from flowfabric.core import contracts as c
from flowfabric.core.ids import SignalId

LIMIT = 8
WARM_UP = 50
SIGNAL = "answer"


@dataclass
class Waits:
    """When each execution began to wait, and how long it took in the end; round trips in the same turns."""

    began: dict[int, float] = field(default_factory=dict)
    took_us: list[float] = field(default_factory=list)
    round_trips_us: list[float] = field(default_factory=list)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)

    def p(self, share: float) -> float:
        return percentile(self.took_us, share)

    def raw(self, share: float) -> float:
        return percentile(self.round_trips_us, share)


class Answering:
    """A store whose suspensions are answered at once, by the token that the suspension gave."""

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend
        self._sent: set[asyncio.Task[c.SignalOutcome]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    async def suspend_execution(self, args: c.SuspendExecutionArgs) -> c.SuspendExecutionResult:
        outcome = await self._backend.suspend_execution(args)
        signal = c.DeliverSignalArgs(
            execution_id=args.execution_id,
            waitpoint_id=outcome.waitpoint_id,
            waitpoint_token=outcome.waitpoint_token,
            signal_id=SignalId.new(),
            signal_name=SIGNAL,
        )
        task = asyncio.create_task(self._backend.deliver_signal(signal))
        self._sent.add(task)
        task.add_done_callback(self._sent.discard)
        return outcome


def asking(waits: Waits) -> Worker:
    worker = Worker()

    @worker.task(name="ask")
    async def ask(ctx: Context, number: int) -> None:
        waits.began.setdefault(number, time.perf_counter())
        await ctx.wait_for_signal(SIGNAL)
        waits.took_us.append((time.perf_counter() - waits.began[number]) * 1e6)
        waits.resumed.set()

    return worker


async def timed_us(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1e6


async def one_repetition(executions: int) -> Waits:
    waits = Waits()
    async with Fabric.connect("embedded://") as fabric:
        backend = fabric.backend
        assert isinstance(backend, ValkeyBackend)

        async def nothing() -> None:
            await backend.client.execute("FCALL", "ff_version", 0)

        async with Engine(backend), asking(waits).working(cast("EngineBackend", Answering(backend))):
            for number in range(WARM_UP + executions):
                if number == WARM_UP:
                    waits.took_us.clear()
                    waits.round_trips_us.clear()
                waits.resumed.clear()
                handle = await fabric.submit("ask", number)
                await waits.resumed.wait()
                await handle.wait(timeout=10)
                waits.round_trips_us.append(await timed_us(nothing))
    assert len(waits.took_us) == executions, "each was resumed once"
    return waits


def report(options: argparse.Namespace, repetitions: list[Waits]) -> None:
    figures = {
        "suspend, signal, resume": [(each.p(0.50), each.p(0.99)) for each in repetitions],
        "an FCALL that does nothing": [(each.raw(0.50), each.raw(0.99)) for each in repetitions],
    }
    times = ratio([each.p(0.50) for each in repetitions], [each.raw(0.50) for each in repetitions])
    goal = Goal("p50 to that of one FCALL", times, LIMIT, at_least=False)
    if options.json:
        told = asdict(goal) | {"met": goal.met}
        print(json.dumps({"machine": machine(), "us": figures, "goals": [told]}, indent=2))
        return
    title = f"{options.executions} waits, one after the other; us, median (low-high) of {len(repetitions)}"
    rows = [
        [what, *(str(Spread.of(column)) for column in zip(*values, strict=True))] for what, values in figures.items()
    ]
    Table(title, ("", "p50", "p99"), rows).show()
    Table("goals, median (low-high)", ("", "figure", "goal", ""), [goal.row()]).show()
    print(", ".join(f"{name} {value}" for name, value in machine().items()))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--executions", type=int, default=500, help="that wait, in each repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    report(options, [await one_repetition(options.executions) for _ in range(options.repetitions)])


if __name__ == "__main__":
    asyncio.run(main())
