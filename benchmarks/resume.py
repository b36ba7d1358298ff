"""How long does a wait take whose answer is there at once? Suspend, signal and resume, beside a raw round trip.

    python -m benchmarks.resume [--json] [--executions 500] [--repetitions 3]

A handler waits for a signal. Counted are the call that suspends it, from the handler to the store's answer, and the
way back, from the sending of the signal to the line behind the wait, in the handler's next pass; between the two some
milliseconds pass, as nobody answers at once. Nobody polls: the worker's claim waits in the store. In turns with it, on
the same connection and after the same rest, an FCALL that does nothing. Store, worker and sender are an embedded
server and one process.
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

LIMIT = 8
WARM_UP = 50
PAUSE_S = 0.005
SIGNAL = "answer"


@dataclass
class Waits:
    """What each wait took, in both stretches, and round trips in the same turns."""

    began: float | None = None
    suspending_us: float = 0.0
    took_us: list[float] = field(default_factory=list)
    round_trips_us: list[float] = field(default_factory=list)
    suspended: asyncio.Event = field(default_factory=asyncio.Event)
    resumed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        self.began = None
        self.suspended.clear()
        self.resumed.clear()

    def p(self, share: float) -> float:
        return percentile(self.took_us, share)

    def raw(self, share: float) -> float:
        return percentile(self.round_trips_us, share)


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
        waits.took_us.append(waits.suspending_us + _us_since(waits.began))
        waits.resumed.set()

    return worker


def _us_since(moment: float) -> float:
    return (time.perf_counter() - moment) * 1e6


async def timed_us(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await call()
    return _us_since(began)


async def one_wait(fabric: Fabric, waits: Waits) -> None:
    waits.begin()
    handle = await fabric.submit("ask")
    async with asyncio.timeout(10):
        await waits.suspended.wait()
        await asyncio.sleep(PAUSE_S)
        waits.began = time.perf_counter()
        await handle.signal(SIGNAL)
        await waits.resumed.wait()
        await handle.wait()


async def one_repetition(executions: int) -> Waits:
    waits = Waits()
    async with Fabric.connect("embedded://") as fabric:
        backend = fabric.backend
        assert isinstance(backend, ValkeyBackend)

        async def nothing() -> None:
            await backend.client.execute("FCALL", "ff_version", 0)

        async with Engine(backend), asking(waits).working(cast("EngineBackend", Watched(backend, waits))):
            for number in range(WARM_UP + executions):
                if number == WARM_UP:
                    waits.took_us.clear()
                    waits.round_trips_us.clear()
                await one_wait(fabric, waits)
                await asyncio.sleep(PAUSE_S)  # the same rest before it
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
